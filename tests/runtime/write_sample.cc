// write_sample FILE: a small compiled model, for tests of programs that embed one.
#include <fstream>

#include "tests/runtime/sample_file.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const lathe::test::FileImage file = lathe::test::make_file();
  std::ofstream f(argv[1], std::ios::binary);
  f.write(reinterpret_cast<const char*>(file.data.get()), static_cast<std::streamsize>(file.size));
  f.close();
  return f ? 0 : 1;
}
