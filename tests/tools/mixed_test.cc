// Mixed precision: bench-device, and quantize under budgets.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "tools/cli_checks.h"

using namespace lathe;
using namespace lathe::test;

namespace {

// One table for all tests, so that costs are measured once.
std::vector<std::string> mixed(const TempFolder& folder, const std::vector<std::string>& more) {
  static const TempFolder shared;
  std::vector<std::string> all{"quantize", kModel, "--data", kData, "--samples", "40", "--limit", "300", "--seconds", "0.1"};
  all.insert(all.end(), {"--cost-table", shared.file("costs.json"), "-o", folder.file("mixed.lathe")});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

const Tree& point(const Tree& choice, const std::string& name) {
  const Tree::Array& points = *choice.find("points")->as_array();
  const auto it = std::find_if(points.begin(), points.end(), [&](const Tree& p) { return *p.find("name")->as_string() == name; });
  REQUIRE(it != points.end());
  return *it;
}

}  // namespace

TEST_CASE("bench-device measures every operator once and says where INT8 beats FP16") {
  const TempFolder folder;
  const std::string table = folder.file("costs.json");
  const std::vector<std::string> command{"bench-device", kModel, "--seconds", "0.05", "-o", table};
  std::vector<std::string> json = command;
  json.push_back("--json");
  const auto first = json_of(run_lathe(json));
  CHECK(number(first, "measured") > 30);
  const Tree::Array& ops = *first.find("ops")->as_array();
  CHECK(ops.size() == 13);
  for (const Tree& op : ops)
    for (const char* key : {"int8_us", "fp16_us", "fp32_us"}) CHECK(number(op, key) >= 0);
  CHECK(std::any_of(ops.begin(), ops.end(), [](const Tree& op) { return number(op, "fp32_us") > 1; }));
  CHECK(ops[0].find("int8_beats_fp16") != nullptr);
  CHECK(number(json_of(run_lathe(json)), "measured") == 0);
  const auto text = run_lathe(command);
  CHECK(text.out.find("INT8 beats FP16 for ") != std::string::npos);
  CHECK(text.out.find("dequantize us") != std::string::npos);
  spill(table, "{\"devices\": 3}");
  check_refused(run_lathe(command), {"no table of costs"});
}

TEST_CASE("a budget takes the fastest assignment that holds its gates, and explains it") {
  const TempFolder folder;
  const auto choice = json_of(run_lathe(mixed(folder, {"--max-drop", "2", "--json", "--picture", folder.file("pareto.svg")})));
  CHECK(choice.find("points")->as_array()->size() == 4);
  const Tree& chosen = point(choice, "chosen");
  CHECK(*chosen.find("passes")->as_bool());
  for (const char* uniform : {"FP32", "FP16", "INT8"})
    if (*point(choice, uniform).find("passes")->as_bool())
      CHECK(number(chosen, "measured_us") <= number(point(choice, uniform), "measured_us"));
  for (const Tree& op : *choice.find("ops")->as_array()) CHECK(!op.find("why")->as_string()->empty());
  const std::string svg = slurp(folder.file("pareto.svg"));
  CHECK(svg.find("</svg>") != std::string::npos);
  for (const char* label : {">FP32<", ">FP16<", ">INT8<", ">chosen<"}) CHECK(svg.find(label) != std::string::npos);
  const auto judged = run_lathe({"eval", folder.file("mixed.lathe"), "--data", kData, "--limit", "300", "--json"});
  CHECK(number(json_of(judged), "accuracy") > 0.88);
}

TEST_CASE("operators whose INT8 breaks a gate leave it, until the gate holds") {
  const TempFolder folder;
  // Ranges that cut a tenth of all activations ruin INT8 everywhere.
  const auto choice = json_of(run_lathe(
      mixed(folder, {"--observer", "percentile", "--percentile", "90", "--max-drop", "1", "--max-group-drop", "90", "--json"})));
  CHECK(number(point(choice, "INT8"), "drop") > 1);
  CHECK(number(point(choice, "chosen"), "drop") <= 1);
  const Tree::Array& ops = *choice.find("ops")->as_array();
  CHECK(std::any_of(ops.begin(), ops.end(), [](const Tree& op) { return op.find("why")->as_string()->find("accuracy") == 0; }));
  CHECK(number(choice, "networks") > 4);
}

TEST_CASE("a budget that nothing meets is an error that says how far off it is, and writes nothing") {
  const TempFolder folder;
  const auto gate = run_lathe(mixed(folder, {"--max-drop", "-50"}));
  CHECK(gate.status == 1);
  CHECK(gate.err.find("no assignment of precisions holds the gates") != std::string::npos);
  CHECK(gate.err.find("at most -50.00 is allowed") != std::string::npos);
  check_refused(run_lathe(mixed(folder, {"--target-latency", "0.00001"})), {"ms on this device, --target-latency is 1e-05"});
  CHECK(!std::filesystem::exists(folder.file("mixed.lathe")));
  check_refused(run_lathe({"quantize", kModel, "--max-drop", "1", "-o", folder.file("x.lathe")}), {"give --data set.toml"});
  check_refused(run_lathe({"quantize", kModel, "--dynamic", "--max-drop", "1", "-o", folder.file("x.lathe")}),
                {"--dynamic takes no budgets"});
}
