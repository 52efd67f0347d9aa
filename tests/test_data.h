// Where tests find real models and data: LATHE_DATA, else ../shared/data beside the source tree (LATHE_SOURCE_ROOT, from the build).
#pragma once
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace lathe::test {

inline std::string data_root() {
  const char* env = std::getenv("LATHE_DATA");
  return env != nullptr && *env != '\0' ? env : LATHE_SOURCE_ROOT "/../shared/data";
}

// The path of a file or folder below the data root, or "" if it is not there: then say_skipped() and return.
inline std::string data_path(const std::string& relative) {
  const std::string path = data_root() + "/" + relative;
  std::error_code ec;
  return std::filesystem::exists(path, ec) ? path : std::string();
}

// Says what this run leaves out and why; tests/run_all.py counts each such line once.
inline void say_skipped(const std::string& what, const std::string& why) { std::printf("[skipped] %s: %s\n", what.c_str(), why.c_str()); }

}  // namespace lathe::test
