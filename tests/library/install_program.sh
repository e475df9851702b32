#!/bin/sh
# Installs the program into a folder, moves the folder, and runs it there: it must find its libraries beside itself.
#
#   install_program.sh BUILD NODE_MODULES
set -eu
build=$1 modules=$2
to=$build/tests/library/program
rm -rf "$to" "$to.moved"
cmake --install "$build" --prefix "$to" --component program >/dev/null
mv "$to" "$to.moved"
"$to.moved/bin/cairn" --version
libraries=$(ldd "$to.moved/bin/cairn")
echo "$libraries" | grep -qF "$to.moved/bin/../lib" || { echo "libllama is not taken from the installed folder" >&2; exit 1; }
if echo "$libraries" | grep -qF "$modules"; then
    echo "the installed program still uses the build's libraries" >&2
    exit 1
fi
rm -rf "$to.moved"
