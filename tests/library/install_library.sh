#!/bin/sh
# Installs libcairn into a folder, builds the example against it as its users would (pkg-config; shared, then static),
# and runs it. It must not need libllama.
#
#   install_library.sh BUILD SOURCE CC LIBDIR [FLAGS...]
set -eu
build=$1 source=$2 cc=$3 libdir=$4
shift 4
to=$build/tests/library/installed
rm -rf "$to"
cmake --install "$build" --prefix "$to" --component library >/dev/null
PKG_CONFIG_PATH=$to/$libdir/pkgconfig
export PKG_CONFIG_PATH

# shellcheck disable=SC2046
"$cc" -std=c11 "$source/examples/embed.c" -o "$to/embed-shared" "$@" $(pkg-config --cflags --libs cairn)
LD_LIBRARY_PATH=$to/$libdir "$to/embed-shared"
if LD_LIBRARY_PATH=$to/$libdir ldd "$to/embed-shared" | grep -E 'llama|ggml'; then
    echo "libcairn must link without libllama" >&2
    exit 1
fi
LD_LIBRARY_PATH=$to/$libdir ldd "$to/embed-shared" | grep -q "$to/$libdir/libcairn.so"

rm "$to/$libdir"/libcairn.so*
# shellcheck disable=SC2046
"$cc" -std=c11 "$source/examples/embed.c" -o "$to/embed-static" "$@" $(pkg-config --static --cflags --libs cairn)
"$to/embed-static"
