#!/bin/bash
# debian/ agrees with the sources: the version, the installed files, and the
# packages that quickstart installs.  tests/packages.sh builds the packages.
set -u
. "$(dirname "$0")/lib.sh"
root=$here
BUILD=$(realpath "${BUILD:-$root}")
enter "$here/tests/data"
work=$PWD
cd "$root" || exit 1
bad=0
report() { echo "$*" && bad=1; }

setting() { sed -n "s/^$1 = //p" "$BUILD/Makefile"; }
version=$(sed -n 's/^AC_INIT(\[Axon\], \[\([^]]*\)\].*/\1/p' configure.ac)
packaged=$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
[ "$packaged" = "$version" ] ||
  report "debian/changelog: version $packaged; configure.ac has $version"

# Each installed file is in one package, and each line of a list has a file.
unset MAKEFLAGS MAKELEVEL MFLAGS
make -s -C "$BUILD" install DESTDIR="$work/root" >"$work/log" 2>&1 ||
  { cat "$work/log" && exit 1; }
cd "$work/root$(setting prefix)" || exit 1
shopt -s nullglob globstar
for list in "$root"/debian/{axon,libaxon0,libaxon-dev}.install; do
  while read -r pattern _; do
    # shellcheck disable=SC2206
    files=($(sed 's|^usr/lib/\*/|lib/|; s|^usr/||' <<<"$pattern"))
    [ ${#files[@]} -gt 0 ] || report "${list##*/}: no file matches $pattern"
    find "${files[@]}" ! -type d
  done <"$list"
done | sort >"$work/packaged"
find . ! -type d ! -name libaxon.la | sed 's|^\./||' | sort >"$work/installed"
diff -u --label 'make install' --label 'debian/*.install' \
  "$work/installed" "$work/packaged" || bad=1

cd "$root" || exit 1
packages=$(sed -n "/^build_packages='/,/'/p" quickstart |
  tr -d "'" | sed 's/build_packages=//' | tr '\n' ' ')
for package in $packages; do
  case $package in
  gcc | make | autoconf | automake | libtool) continue ;; # with debhelper
  esac
  grep -qE "(^|[ |=])$package( |,|\$)" debian/control debian/rules ||
    report "debian/ does not mention $package, which quickstart installs"
done
exit "$bad"
