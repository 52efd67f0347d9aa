#include <doctest/doctest.h>

#include <map>

#include "base/json.h"
#include "command.h"

namespace lathe::test {
namespace {

Tree json_of(const std::vector<std::string>& arguments) {
  const CommandResult r = run_lathe(arguments);
  REQUIRE_MESSAGE(r.status == 0, r.err);
  auto tree = parse_json(r.out, "output");
  REQUIRE(tree);
  return *tree;
}

double number(const Tree& table, const char* key) {
  double v = -1;
  REQUIRE(table.find(key) != nullptr);
  REQUIRE(table.find(key)->as_number(&v));
  return v;
}

TEST_CASE("kernels marks one kernel per family as chosen for a shape") {
  const Tree out = json_of({"kernels", "--gemm", "16x24x32", "--ms", "1", "--json"});
  std::map<std::string, int> chosen;
  for (const Tree& k : *out.find("kernels")->as_array()) {
    CHECK(*k.find("shape")->as_string() == "16x24x32");
    CHECK(number(k, "us") > 0);
    CHECK(number(k, "gops") > 0);
    chosen[*k.find("family")->as_string()] += *k.find("chosen")->as_bool() ? 1 : 0;
  }
  CHECK(chosen.count("GemmS8") == 1);
  CHECK(chosen.count("GemmF32") == 1);
  // The weights here have no zeros, for which no sparse kernel is taken.
  for (const auto& [family, count] : chosen) CHECK_MESSAGE(count == (family == "GemmSparseS8" ? 0 : 1), family);
}

TEST_CASE("kernels keeps to --isa") {
  const Tree out = json_of({"kernels", "--depthwise", "6x6x20:3:1", "--ms", "1", "--isa", "scalar", "--json"});
  CHECK(*out.find("isa")->as_string() == "scalar");
  for (const Tree& k : *out.find("kernels")->as_array()) CHECK(*k.find("needs")->as_string() == "scalar");
}

TEST_CASE("kernels refuses shapes and patterns that fit nothing") {
  CommandResult r = run_lathe({"kernels", "--conv", "8x8x4:4:3"});
  CHECK(r.status == 1);
  CHECK(r.err.find("HxWxC:OC:KERNEL:STRIDE") != std::string::npos);
  r = run_lathe({"kernels", "--bench", "no_such_kernel"});
  CHECK(r.status == 1);
  CHECK(r.err.find("no_such_kernel") != std::string::npos);
}

TEST_CASE("kernels --peak measures the caches") {
  const Tree out = json_of({"kernels", "--peak", "--json"});
  CHECK(number(*out.find("read_gb_per_s"), "DRAM") >= 0);
}

}  // namespace
}  // namespace lathe::test
