#!/bin/bash
# Installs a build, moves it, and builds a user's program on it by find_package and by pkg-config. Then configures the
# library alone, as on a machine that has nothing of what only the tools need.
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

if command -v pkg-config >/dev/null; then
  PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tutti.pc)")
  export PKG_CONFIG_PATH
  read -ra flags < <(pkg-config --cflags --libs tutti)
  "$compiler" -std=c++20 "$consumer/consumer.cc" -o "$folder/by_pkg_config" "${flags[@]}" \
    -Wl,-rpath,"$(pkg-config --variable=libdir tutti)"
  "$folder/by_pkg_config" || { echo "a program built by pkg-config failed"; exit 1; }
  echo "pkg-config: a program was built and ran"
else
  echo "pkg-config: not tried; apt install pkg-config"
fi

# Its sources are among those that were compiled for this build; that it configures and has no other is what is new.
absent=(-DCMAKE_DISABLE_FIND_PACKAGE_{pugixml,CLI11,GTest,benchmark}"=ON")
"$cmake" -S "$consumer/../../.." -B "$folder/alone" --preset release -DCMAKE_CXX_COMPILER="$compiler" \
  -DTUTTI_TOOLS=OFF "${absent[@]}" >"$folder/alone.txt" 2>&1 || { tail "$folder/alone.txt"; exit 1; }
if grep -E '"file": .*/src/(topology|agent|measure|bound|simulation|synthesis|cli)/' "$folder/alone/compile_commands.json"; then
  echo "the library alone has sources of tools"
  exit 1
fi
grep -q "/src/communicator/create.cc" "$folder/alone/compile_commands.json"
echo "TUTTI_TOOLS=OFF: the library configures alone"

"$cmake" -S "$consumer/../../.." -B "$folder/no_taccl" --preset release -DCMAKE_CXX_COMPILER="$compiler" \
  -DTUTTI_TACCL=OFF >"$folder/no_taccl.txt" 2>&1 || { tail "$folder/no_taccl.txt"; exit 1; }
if grep -E '"file": .*/src/synthesis/taccl/' "$folder/no_taccl/compile_commands.json"; then
  echo "TACCL's stages are built though they are off"
  exit 1
fi
"$cmake" --build "$folder/no_taccl" --target src/synthesis/CMakeFiles/tutti_synthesis.dir/generators.cc.o \
  >"$folder/no_taccl.txt" 2>&1 || { tail "$folder/no_taccl.txt"; exit 1; }
echo "TUTTI_TACCL=OFF: the synthesizer builds without Cbc"
