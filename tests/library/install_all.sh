#!/bin/sh
# Installs everything into an empty root folder, uses it there, installs over it, and takes it away: nothing may be left
# but what was there before.
#
#   install_all.sh BUILD SOURCE
set -eu
build=$1 source=$2
root=$build/tests/library/root
prefix=/opt/cairn
to=$root$prefix
fail() { echo "install_all: $1" >&2; exit 1; }
has() { [ -e "$to/$1" ] || fail "$1 was not installed"; }

rm -rf "$root" "$root.moved"
mkdir -p "$to/bin"
echo mine >"$to/bin/mine"
(cd "$root" && find . | sort) >"$build/tests/library/before"

# --- everything is there -------------------------------------------------------------------------------------------
"$source/tools/install" "$build" "$prefix" "$root"
for file in bin/cairn share/man/man1/cairn.1 share/man/man1/cairn-serve.1 share/man/man1/cairn-store.1 share/man/man3/libcairn.3 \
    share/bash-completion/completions/cairn share/zsh/site-functions/_cairn share/fish/vendor_completions.d/cairn.fish \
    share/cairn/models/ggml-vocab-qwen35.gguf share/doc/cairn/copyright share/doc/cairn/THIRD_PARTY_NOTICES.md \
    share/doc/cairn/page_licenses.txt share/doc/cairn/README.md share/doc/cairn/docs/api.md share/doc/cairn/docs/images/page.png \
    include/cairn/cairn.h; do
    has "$file"
done
grep -q "^ExecStart=$prefix/bin/cairn serve" "$to/lib/systemd/system/cairn.service" || fail "the unit starts another program"
find "$to" -name cairn.pc | grep -q . || fail "no cairn.pc"
find "$to" -name 'libcairn.so' | grep -q . || fail "no libcairn.so"
for command in $("$to/bin/cairn" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    has "share/man/man1/cairn-$command.1"
done

# --- and works where it was moved to, with nothing of the build -----------------------------------------------------
mv "$root" "$root.moved"
moved=$root.moved$prefix
"$moved/bin/cairn" --version
"$moved/bin/cairn" model synth -o "$moved/tiny.gguf" >/dev/null
rm "$moved/tiny.gguf"
mv "$root.moved" "$root"

# --- completion says what the program has -----------------------------------------------------------------------------
completions=$(bash -c '. "$1"; COMP_WORDS=(cairn serve --resume ""); COMP_CWORD=3; _cairn; echo "${COMPREPLY[*]}"
    COMP_WORDS=(cairn se); COMP_CWORD=1; _cairn; echo "${COMPREPLY[*]}"
    COMP_WORDS=(cairn serve --cache-r); COMP_CWORD=2; _cairn; echo "${COMPREPLY[*]}"' - "$to/share/bash-completion/completions/cairn")
[ "$completions" = "$(printf 'fast exact\nserve\n--cache-ram')" ] || fail "completion gave: $completions"
if command -v zsh >/dev/null; then zsh -n "$to/share/zsh/site-functions/_cairn"; fi
if command -v fish >/dev/null; then fish -n "$to/share/fish/vendor_completions.d/cairn.fish"; fi
if command -v man >/dev/null; then
    for page in "$to"/share/man/man[13]/*; do
        warnings=$(LC_ALL=C.UTF-8 man --warnings -l "$page" 2>&1 >/dev/null)
        [ -z "$warnings" ] || fail "$page: $warnings"
    done
fi

# --- a newer version over an older one: what only the older had goes ---------------------------------------------------
mkdir "$to/share/cairn/older"
echo old >"$to/share/cairn/older/file"
printf 'd share/cairn/older\nf share/cairn/older/file\n' >>"$to/share/cairn/installed"
"$source/tools/install" "$build" "$prefix" "$root" >/dev/null
[ ! -e "$to/share/cairn/older" ] || fail "what only an older version had is still there"

# --- nothing is left ----------------------------------------------------------------------------------------------------
"$source/tools/uninstall" "$prefix" "$root"
(cd "$root" && find . | sort) >"$build/tests/library/after"
diff "$build/tests/library/before" "$build/tests/library/after" || fail "the root folder is not as it was"
if "$source/tools/uninstall" "$prefix" "$root" 2>/dev/null; then fail "a second uninstall found something"; fi
rm -rf "$root"

# --- not even the folders above, where they weren't there ---------------------------------------------------------------
mkdir "$root"
"$source/tools/install" "$build" "$prefix" "$root" >/dev/null
"$source/tools/install" "$build" "$prefix" "$root" >/dev/null
"$source/tools/uninstall" "$prefix" "$root" >/dev/null
rmdir "$root" || fail "folders are left: $(find "$root")"
