// Judging, choosing and keeping models: eval with groups and gates, sensitivity, equalization, the registry.
#include <doctest/doctest.h>

#include <cmath>

#include "data/npy.h"
#include "tools/cli_checks.h"

using namespace lathe;
using namespace lathe::test;

namespace {

// The fashion set's first test pictures, with a group column whose rare value has 20 of 400 samples.
std::string grouped_set(const TempFolder& folder) {
  std::string groups = "device\n", text = slurp(kData);
  for (int i = 0; i < 10000; ++i) groups += i % 20 == 0 ? "old\n" : i % 2 == 0 ? "phone\n" : "watch\n";
  spill(folder.file("groups.csv"), groups);
  text.insert(text.find("[split.test]") + std::string("[split.test]").size(), "\ngroups = '" + folder.file("groups.csv") + "'");
  spill(folder.file("set.toml"), text);
  return folder.file("set.toml");
}

}  // namespace

TEST_CASE("eval compares with a baseline by group, and its gates give exit status 1") {
  const TempFolder folder;
  const std::string set = grouped_set(folder);
  std::vector<std::string> eval{"eval", int8_model(), "--data", set, "--limit", "400", "--baseline", kModel};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = eval;
    all.insert(all.end(), more.begin(), more.end());
    return run_lathe(all);
  };
  const auto report = json_of(with({"--json", "--max-drop", "5", "--max-group-drop", "5"}));
  CHECK(number(report, "baseline") > 0.9);
  CHECK(std::fabs(number(report, "drop")) < 3);
  CHECK(number(*report.find("groups")->find("device=phone"), "samples") == 180);
  CHECK(*report.find("groups")->find("device=old")->find("few")->as_bool());
  CHECK(report.find("worst_group") != nullptr);
  const auto refused = with({"--max-drop", "-90", "--max-group-drop", "-90"});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("3 gates do not hold") != std::string::npos);
  CHECK(refused.err.find("group device=watch: accuracy fell by") != std::string::npos);
  CHECK(refused.err.find("device=old") == std::string::npos);
  CHECK(refused.out.find("few samples: noise") != std::string::npos);
  check_refused(run_lathe({"eval", kModel, "--data", kData, "--max-drop", "1"}), {"--baseline"});
  check_refused(run_lathe({"eval", kModel, "--data", kData, "--metric", "mse"}), {"split 'test' has no targets"});
  check_refused(run_lathe({"eval", kModel, "--data", kData, "--metric", "best"}), {"unknown metric 'best'", "recall@K"});
}

TEST_CASE("a metric of the user's own gets the predictions and prints one number") {
  const TempFolder folder;
  const std::string script = folder.file("count.sh");
  spill(script, "#!/bin/sh\ncp \"$1\" " + folder.file("seen.npz") + "\necho 42.5\n");
  const std::vector<std::string> eval{"eval", kModel, "--data", kData, "--limit", "40", "--json", "--metric-cmd"};
  const auto with = [&](const std::string& command) {
    std::vector<std::string> all = eval;
    all.push_back(command);
    return run_lathe(all);
  };
  CHECK(number(json_of(with("sh " + script)), "command") == 42.5);
  const auto seen = read_npz(folder.file("seen.npz"));
  REQUIRE(seen);
  REQUIRE(seen->size() == 2);
  CHECK((*seen)[0].name == "outputs");
  CHECK((*seen)[0].tensor.dims == std::vector<int64_t>{40, 10});
  CHECK((*seen)[1].tensor.dims == std::vector<int64_t>{40});
  CHECK(with("echo two words").err.find("which is not one number") != std::string::npos);
  CHECK(with("false").status == 1);
}

TEST_CASE("sensitivity lists layers, writes what to keep and a picture, and quantize reads it") {
  const TempFolder folder;
  const std::string keep = folder.file("keep.toml"), picture = folder.file("s.svg");
  const std::vector<std::string> command{"sensitivity", kModel, "--data", kData, "--samples", "32", "--limit", "40"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = command;
    all.insert(all.end(), more.begin(), more.end());
    return run_lathe(all);
  };
  const auto report = json_of(with({"--json", "-o", keep, "--picture", picture}));
  const auto& layers = *report.find("layers")->as_array();
  REQUIRE(layers.size() > 8);
  CHECK(*layers[0].find("part")->as_string() == "first layer");
  CHECK(*layers[layers.size() - 1].find("part")->as_string() == "classifier");
  CHECK(number(layers[0], "local_db") > 20);
  CHECK(slurp(picture).rfind("<svg ", 0) == 0);
  size_t listed = 0;
  for (const Tree& layer : layers) listed += *layer.find("keep")->as_bool() ? 1 : 0;
  CHECK(line_count(slurp(keep)) == 3 + listed);
  spill(keep, "keep = ['fc', 'stem.conv']\n");
  const auto kept = json_of(run_lathe(
      {"quantize", kModel, "--data", kData, "--samples", "8", "--keep", keep, "--json", "-o", folder.file("k.lathe")}));
  for (const Tree& op : *kept.find("ops")->as_array()) {
    const std::string& node = *op.find("node")->as_string();
    if (node == "fc" || node == "stem.conv") CHECK(*op.find("reason")->as_string() == "kept float on request");
  }
  CHECK(run_lathe({"dump", folder.file("k.lathe")}).out.find("keep_hash") != std::string::npos);
  spill(keep, "kept = ['fc']\n");
  check_refused(run_lathe({"quantize", kModel, "--data", kData, "--keep", keep, "-o", folder.file("n.lathe")}), {"keep.toml", "keep"});
}

TEST_CASE("equalization lists pairs and reasons, and needs data") {
  const TempFolder folder;
  const auto done = run_lathe({"quantize", kModel, "--data", kData, "--samples", "16", "--per-tensor", "--equalize", "-o", folder.file("e.lathe")});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  CHECK(done.out.find("equalize ") != std::string::npos);
  CHECK(done.out.find("not by equalize: fc: ") != std::string::npos);
  check_refused(run_lathe({"quantize", kModel, "--equalize", "-o", folder.file("n.lathe")}), {"--equalize", "--data"});
}

TEST_CASE("remedies report what they gained, and are refused where they cannot be") {
  const TempFolder folder;
  const std::string out = folder.file("r.lathe");
  const auto done = json_of(run_lathe({"quantize", kModel, "--data", kData, "--samples", "32", "--per-tensor", "--weight-mse",
                                       "--smooth", "--bias-correction", "--json", "-o", out}));
  const auto& remedies = *done.find("remedies")->as_array();
  REQUIRE(remedies.size() == 3);  // in the order in which they are taken
  CHECK(*remedies[0].find("name")->as_string() == "smooth");
  CHECK(*remedies[1].find("name")->as_string() == "weight MSE");
  CHECK(*remedies[2].find("name")->as_string() == "bias correction, empirical");
  CHECK(number(remedies[0], "layers") == 0);  // the network has no norms
  CHECK(number(remedies[2], "layers") > 5);
  CHECK(number(remedies[2], "sqnr_db_after") > 15);
  CHECK(run_lathe({"check", out}).status == 0);
  const auto refused = [&](std::vector<std::string> more, const std::vector<std::string>& parts) {
    more.insert(more.begin(), {"quantize", kModel, "-o", folder.file("n.lathe")});
    check_refused(run_lathe(more), parts);
  };
  refused({"--adaround"}, {"--adaround", "--data"});
  refused({"--bias-correction=best", "--data", kData}, {"'best'", "empirical or analytic"});
  refused({"--advise"}, {"--advise", "--data"});
  refused({"--advise", "--equalize", "--data", kData}, {"--advise tries remedies by itself"});
  refused({"--dynamic", "--adaround"}, {"--dynamic", "--equalize"});
  refused({"--data", kData, "--max-drop", "1", "--adaround"}, {"--adaround", "budgets"});
}

TEST_CASE("versions are kept, promoted and rolled back") {
  const TempFolder folder;
  const std::string registry = folder.file("r"), eval = folder.file("eval.json");
  const auto command = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "registry");
    arguments.insert(arguments.end(), {"--registry", registry});
    return run_lathe(arguments);
  };
  const auto measured = run_lathe({"eval", int8_model(), "--data", grouped_set(folder), "--limit", "200", "--json"});
  REQUIRE(measured.status == 0);
  spill(eval, measured.out);
  check_refused(command({"list"}), {"is no registry"});
  REQUIRE(command({"add", kModel, "--name", "v0"}).status == 0);
  const auto added = command({"add", int8_model(), "--name", "v1", "--parent", "original", "--metrics", eval, "--latency", "here=50"});
  REQUIRE_MESSAGE(added.status == 0, added.err);
  // A lowered model is cut at its tensors.
  CHECK(added.out.find(" in 1 pieces") == std::string::npos);
  check_refused(command({"promote", "v1", "--device", "phone"}), {"no latency measured on device 'phone'"});
  CHECK(command({"promote", "original"}).out.rfind("current: v0", 0) == 0);
  CHECK(command({"promote", "v1", "--device", "here"}).out.rfind("current: v1", 0) == 0);
  const auto listed = json_of(command({"list", "--json"}));
  const auto& versions = *listed.as_array();
  REQUIRE(versions.size() == 2);
  const Tree& v1 = *versions[*versions[0].find("name")->as_string() == "v1" ? 0 : 1].find("metrics");
  CHECK(number(*v1.find(""), "accuracy") > 0.9);
  CHECK(v1.find("device=watch") != nullptr);
  CHECK(command({"diff", "v0", "v1"}).out.find("bytes") != std::string::npos);
  CHECK(command({"rollback"}).out.rfind("current: v0", 0) == 0);
  CHECK(*json_of(command({"show", "int8-mixed"})).find("tags")->as_string() == "int8-mixed");
  const std::string half = folder.file("half.lathe");
  REQUIRE(run_lathe({"compile", kModel, "--dtype", "f16", "-o", half}).status == 0);
  REQUIRE(command({"add", half, "--name", "old", "--parent", "v0"}).status == 0);
  REQUIRE(command({"add", half, "--name", "v2", "--parent", "v0"}).status == 0);
  CHECK(json_of(command({"show", "fp16"})).find("name")->as_string()->compare("v2") == 0);
  CHECK(command({"gc", "--keep", "0"}).out.find("removed old") != std::string::npos);
  CHECK(command({"rollback", "original"}).out.rfind("current: v0", 0) == 0);
  REQUIRE(command({"show", "current", "-o", folder.file("out.onnx")}).status == 0);
  CHECK(slurp(folder.file("out.onnx")) == slurp(kModel));
  CHECK(command({"verify"}).status == 0);
  check_refused(command({"add", kModel, "--name", "../x"}), {"cannot be the name of a version"});
  check_refused(command({"add", kModel, "--name", "x", "--latency", "here"}), {"is not DEVICE=MICROSECONDS"});
}

namespace {

// 60 pictures with a column: sample 5 is sample 4 again, 9 is constant, 12 holds NaN. `reversed` turns the order of all.
std::string small_pool(const TempFolder& folder, const std::string& name, bool reversed) {
  constexpr int kCount = 60, kWidth = 784;
  HostTensor x{DType::kF32, {kCount, 1, 28, 28}, std::vector<std::byte>(kCount * kWidth * sizeof(float))};
  std::vector<std::string> lines(kCount);
  for (int i = 0; i < kCount; ++i) {
    const int at = reversed ? kCount - 1 - i : i;
    for (int k = 0; k < kWidth; ++k)
      x.as<float>()[static_cast<size_t>(at * kWidth + k)] = i == 9 ? 0.5f : std::sin(static_cast<float>((i == 5 ? 4 : i) * kWidth + k));
    if (i == 12) x.as<float>()[static_cast<size_t>(at * kWidth)] = NAN;
    lines[static_cast<size_t>(at)] = i % 10 == 0 ? "old\n" : "new\n";
  }
  std::string groups = "device\n";
  for (const std::string& line : lines) groups += line;
  spill(folder.file("groups-" + name + ".csv"), groups);
  REQUIRE(write_npz(folder.file(name + ".npz"), std::vector<NamedTensor>{{"x", x}}));
  spill(folder.file(name + ".toml"), "format = 'npz'\n[split.calib]\npaths = '" + name + ".npz'\ngroups = 'groups-" + name + ".csv'\n");
  return folder.file(name + ".toml");
}

}  // namespace

TEST_CASE("a calibration set is built, used, and known by its hash from then on") {
  const TempFolder folder;
  const std::string set = folder.file("set.toml"), other = folder.file("other.toml"), out = folder.file("q.lathe");
  const std::vector<std::string> build{"calibrate", kModel, "--data", kData, "--build", "--samples", "40", "--pool", "calib", "--json", "-o"};
  const auto to = [&](const std::string& path, const std::vector<std::string>& more) {
    std::vector<std::string> all = build;
    all.push_back(path);
    all.insert(all.end(), more.begin(), more.end());
    return json_of(run_lathe(all));
  };
  const Tree report = to(set, {});
  const std::string hash = *report.find("set")->as_string();
  CHECK(report.find("strata")->as_array()->size() == 10);
  for (const Tree& s : *report.find("strata")->as_array()) CHECK(number(s, "picked") == 4);
  CHECK(number(*report.find("held_out")->find("label=bag"), "samples") == 12);
  CHECK(slurp(set).find("set = \"" + hash + "\"") != std::string::npos);
  to(other, {"--threads", "2"});
  CHECK(slurp(other) == slurp(set));
  to(other, {"--seed", "7"});
  CHECK(slurp(other) != slurp(set));
  const auto quantized = run_lathe({"quantize", kModel, "--data", kData, "--samples-from", set, "-o", out});
  REQUIRE_MESSAGE(quantized.status == 0, quantized.err);
  CHECK(quantized.out.find("40 calibration samples of split 'calib'") != std::string::npos);
  CHECK(run_lathe({"dump", out}).out.find(hash) != std::string::npos);
  REQUIRE(run_lathe({"registry", "add", out, "--name", "v1", "--registry", folder.file("r")}).status == 0);
  CHECK(run_lathe({"registry", "show", "v1", "--registry", folder.file("r")}).out.find("\"calibration_hash\": \"" + hash) != std::string::npos);
  std::string changed = slurp(set);
  changed.erase(changed.find("samples = [\n") + 12, 38);
  spill(other, changed);
  check_refused(run_lathe({"calibrate", kModel, "--data", kData, "--samples-from", other}), {"other.toml: its samples are not those of set"});
  check_refused(run_lathe({"calibrate", kModel, "--data", kData, "--build", "--pool", "test"}), {"--pool is 'test'"});
  check_refused(run_lathe({"calibrate", kModel, "--data", kData, "--build", "--by", "hour"}), {"no column 'hour'", "'label'"});
  check_refused(run_lathe({"calibrate", kModel, "--data", kData, "--build", "--samples", "5"}), {"10 strata for a set of 5 samples"});
}

TEST_CASE("building refuses duplicates, constants and NaN by name, and the pool's order does not change a byte") {
  const TempFolder folder;
  const auto build = [&](const std::string& name, bool reversed) {
    const std::string data = small_pool(folder, name, reversed);
    return json_of(run_lathe({"calibrate", kModel, "--data", data, "--build", "--by", "device", "--samples", "20", "--json", "-o",
                              folder.file(name + ".set")}));
  };
  const Tree report = build("a", false);
  CHECK(number(report, "usable") == 57);
  const auto& refused = *report.find("refused")->as_array();
  REQUIRE(refused.size() == 3);
  const auto line = [&](size_t i) { return *refused[i].find("sample")->as_string() + ": " + *refused[i].find("reason")->as_string(); };
  CHECK(line(0).find("sample 5: duplicate") != std::string::npos);
  CHECK(line(1).find("sample 9: constant") != std::string::npos);
  CHECK(line(2).find("sample 12: NaN or infinity") != std::string::npos);
  CHECK(number((*report.find("strata")->as_array())[1], "picked") == 6);  // device=old: all there are
  build("b", true);
  CHECK(slurp(folder.file("a.set")) == slurp(folder.file("b.set")));
  const std::vector<std::string> calibrate{"calibrate", kModel, "--data", folder.file("a.toml")};
  check_refused(run_lathe(calibrate), {"sample 12: element 0 is NaN or infinite"});
  std::vector<std::string> skipping = calibrate;
  skipping.insert(skipping.end(), {"--on-nan", "skip"});
  const auto skipped = run_lathe(skipping);
  REQUIRE_MESSAGE(skipped.status == 0, skipped.err);
  CHECK(skipped.out.find("sample 12: tensor 'image' holds NaN or infinity") != std::string::npos);
  CHECK(skipped.out.find("59 samples of split 'calib'") != std::string::npos);
}

TEST_CASE("drift compares data, or counts of earlier runs, with calibration") {
  const TempFolder folder;
  const std::string set = grouped_set(folder), counts = folder.file("counts.json");
  const auto same = run_lathe({"drift", int8_model(), "--data", set, "--limit", "300", "--group", "device", "--save", counts});
  CAPTURE(same.err);
  CHECK(same.status == 0);
  CHECK(same.out.find("group device=watch: 0 of ") != std::string::npos);
  const auto twice = json_of(run_lathe({"drift", int8_model(), "--counts", counts, counts, "--json"}));
  CHECK(*twice.find("drifted")->as_bool() == false);
  CHECK(number(twice, "calibration_samples") == 64);
  CHECK(number(twice.find("tensors")->as_array()->front(), "samples") == 600);
  const auto strict = run_lathe({"drift", int8_model(), "--counts", counts, "--psi", "1e-9"});
  CHECK(strict.status == 1);
  CHECK(strict.err.find("recalibrate on data like this") != std::string::npos);
  check_refused(run_lathe({"drift", kModel, "--data", set}), {"has no calibration"});
  check_refused(run_lathe({"drift", int8_model(), "--data", set, "--group", "hour"}), {"no group column 'hour'"});
  check_refused(run_lathe({"drift", int8_model(), "--data", set, "--split", "live"}), {"no split 'live'"});
  check_refused(run_lathe({"drift", int8_model()}), {"one of --data"});
  spill(folder.file("bad.json"), "{\"live_counts\": {\"image\": {\"samples\": 3}}}");
  check_refused(run_lathe({"drift", int8_model(), "--counts", folder.file("bad.json")}), {"bad.json", "'below' is missing"});
  check_refused(run_lathe({"drift", int8_model(), "--counts", set}), {"set.toml"});
}
