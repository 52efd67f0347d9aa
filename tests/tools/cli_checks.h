// What tests of the command share: models, data, and what they check of an answer.
#pragma once
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/json.h"
#include "temp_folder.h"
#include "tools/command.h"

namespace lathe::test {

inline const std::string kModel = LATHE_SOURCE_ROOT "/examples/fashion/fashion_resnet.onnx";
inline const std::string kData = LATHE_SOURCE_ROOT "/examples/fashion/fashion.toml";

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void spill(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// One line on stderr that says all of `parts`, exit status 1, nothing else written into the folder.
inline void check_refused(const CommandResult& r, const std::vector<std::string>& parts) {
  CAPTURE(r.err);
  CHECK(r.status == 1);
  CHECK(line_count(r.err) == 1);
  CHECK(r.err.rfind("lathe: ", 0) == 0);
  for (const std::string& part : parts) CHECK(r.err.find(part) != std::string::npos);
}

inline Tree json_of(const CommandResult& r) {
  REQUIRE_MESSAGE(r.status == 0, r.err);
  const auto tree = parse_json(r.out, "output");
  REQUIRE_MESSAGE(tree, tree.error().message);
  return *tree;
}

inline double number(const Tree& tree, const char* key) {
  double v = 0;
  REQUIRE(tree.find(key) != nullptr);
  REQUIRE(tree.find(key)->as_number(&v));
  return v;
}

// The model quantized once for all tests that need it.
inline const std::string& int8_model() {
  static const TempFolder folder;
  static const std::string path = [] {
    const std::string p = folder.file("int8.lathe");
    const auto r = run_lathe({"quantize", kModel, "--data", kData, "--samples", "64", "-o", p});
    REQUIRE_MESSAGE(r.status == 0, r.err);
    return p;
  }();
  return path;
}

}  // namespace lathe::test
