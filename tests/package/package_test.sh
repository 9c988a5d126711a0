#!/bin/bash
# Installs a build, moves it, and builds a user's program on it by find_package and by pkg-config.
# Usage: package_test.sh BUILD CMAKE CXX
set -eu
build=$1
cmake=$2
compiler=$3
consumer=$(dirname "$(realpath "$0")")/consumer

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cmake" --install "$build" --prefix "$folder/first" >/dev/null
# Nothing installed may know where it was put first.
prefix=$folder/moved
mv "$folder/first" "$prefix"

"$prefix/bin/tutti" version >/dev/null || { echo "the installed command does not run"; exit 1; }

"$cmake" -S "$consumer" -B "$folder/consumer" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF >/dev/null
"$cmake" --build "$folder/consumer" >/dev/null
grep -q "^tutti_DIR:PATH=$prefix/" "$folder/consumer/CMakeCache.txt" || { echo "another tutti was found"; exit 1; }
"$folder/consumer/consumer" || { echo "a program built by find_package failed"; exit 1; }
echo "find_package: a program was built and ran"

command -v pkg-config >/dev/null || { echo "pkg-config: not tried; apt install pkg-config"; exit 0; }
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tutti.pc)")
export PKG_CONFIG_PATH
read -ra flags < <(pkg-config --cflags --libs tutti)
"$compiler" -std=c++20 "$consumer/consumer.cc" -o "$folder/by_pkg_config" "${flags[@]}" \
  -Wl,-rpath,"$(pkg-config --variable=libdir tutti)"
"$folder/by_pkg_config" || { echo "a program built by pkg-config failed"; exit 1; }
echo "pkg-config: a program was built and ran"
