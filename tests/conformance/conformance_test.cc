// The test cases that the ONNX project publishes. No case may fail or crash; floors.txt says how many pass at least. A case that
// is not supported any more would otherwise go unnoticed: raise the floors when more pass.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "base/json.h"
#include "temp_folder.h"
#include "test_data.h"
#include "tools/command.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const char* const kDebian = "/usr/share/libonnx-testdata/data/";

// "name passed" per line; '#' begins a comment.
std::map<std::string, int64_t> floors() {
  std::ifstream in(LATHE_SOURCE_ROOT "/tests/conformance/floors.txt");
  std::map<std::string, int64_t> out;
  for (std::string line; std::getline(in, line);) {
    const size_t space = line.find(' ');
    if (!line.empty() && line[0] != '#' && space != std::string::npos) out[line.substr(0, space)] = std::stoll(line.substr(space));
  }
  return out;
}

int64_t integer(const Tree& tree, const char* key) {
  const Tree* v = tree.find(key);
  REQUIRE(v != nullptr);
  REQUIRE(v->as_int() != nullptr);
  return *v->as_int();
}

std::string text(const Tree& tree, const char* key) { return *tree.find(key)->as_string(); }

void print_failures(const Tree& report) {
  for (const Tree& c : *report.find("cases")->as_array())
    if (text(c, "outcome") == "failed") MESSAGE(text(c, "name") << " (" << text(c, "operator") << "): " << text(c, "reason"));
}

void check_suite(const std::string& name, const std::string& folder) {
  const auto r = run_lathe({"conformance", folder, "--json"});
  const auto report = parse_json(r.out, "output");
  REQUIRE_MESSAGE(report, r.err);
  const int64_t passed = integer(*report, "passed"), failed = integer(*report, "failed");
  MESSAGE("figure: conformance " << name << ": " << passed << " passed (" << integer(*report, "fixed") << " of them with fixed inputs), " << failed
               << " failed, " << integer(*report, "unsupported") << " unsupported");
  print_failures(*report);
  CHECK(failed == 0);
  CHECK(r.status == (failed == 0 ? 0 : 1));
  const auto all = floors();
  REQUIRE(all.contains(name));
  CHECK(passed >= all.at(name));
}

}  // namespace

TEST_CASE("node cases of the ONNX archive pass or are listed as unsupported") {
  const std::string archive = data_path("conformance/onnx_node_928f941.tar.xz");
  if (archive.empty()) {
    MESSAGE("skipped, conformance/onnx_node_928f941.tar.xz is not in the data folder");
    return;
  }
  const TempFolder folder;
  REQUIRE(std::system(("tar -xJf '" + archive + "' -C '" + folder.path() + "'").c_str()) == 0);
  check_suite("onnx_node_928f941", folder.path());
}

TEST_CASE("cases of Debian's libonnx-testdata pass or are listed as unsupported") {
  if (!std::filesystem::exists(kDebian)) {
    MESSAGE("skipped, package libonnx-testdata is not installed");
    return;
  }
  for (const char* set : {"node", "pytorch-operator", "pytorch-converted", "simple"})
    check_suite(std::string("debian-") + set, std::string(kDebian) + set);
}
