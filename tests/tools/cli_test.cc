#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/json.h"
#include "data/npy.h"
#include "temp_folder.h"
#include "tools/command.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const std::string kModel = LATHE_SOURCE_ROOT "/examples/fashion/fashion_resnet.onnx";
const std::string kData = LATHE_SOURCE_ROOT "/examples/fashion/fashion.toml";

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void spill(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// One line on stderr that says all of `parts`, exit status 1, nothing else written into the folder.
void check_refused(const CommandResult& r, const std::vector<std::string>& parts) {
  CAPTURE(r.err);
  CHECK(r.status == 1);
  CHECK(line_count(r.err) == 1);
  CHECK(r.err.rfind("lathe: ", 0) == 0);
  for (const std::string& part : parts) CHECK(r.err.find(part) != std::string::npos);
}

Tree json_of(const CommandResult& r) {
  REQUIRE_MESSAGE(r.status == 0, r.err);
  const auto tree = parse_json(r.out, "output");
  REQUIRE_MESSAGE(tree, tree.error().message);
  return *tree;
}

double number(const Tree& tree, const char* key) {
  double v = 0;
  REQUIRE(tree.find(key) != nullptr);
  REQUIRE(tree.find(key)->as_number(&v));
  return v;
}

HostTensor images(int64_t n, int64_t c, float fill) {
  HostTensor t{DType::kF32, {n, c, 28, 28}, {}};
  t.bytes.resize(static_cast<size_t>(n * c * 784) * sizeof(float));
  auto v = t.as<float>();
  for (size_t i = 0; i < v.size(); ++i) v[i] = fill + 0.001f * static_cast<float>(i % 977);
  return t;
}

// A data set of one .npy as every split asked for.
std::string npy_set(const TempFolder& folder, const HostTensor& tensor, const std::string& split) {
  REQUIRE(write_npy(folder.file(split + ".npy"), tensor));
  const std::string toml = folder.file(split + ".toml");
  spill(toml, "format = \"npz\"\n[split." + split + "]\npaths = \"" + split + ".npy\"\n");
  return toml;
}

// The model quantized once for all tests that need it.
const std::string& int8_model() {
  static const TempFolder folder;
  static const std::string path = [] {
    const std::string p = folder.file("int8.lathe");
    const auto r = run_lathe({"quantize", kModel, "--data", kData, "--samples", "64", "-o", p});
    REQUIRE_MESSAGE(r.status == 0, r.err);
    return p;
  }();
  return path;
}

}  // namespace

TEST_CASE("docs/operators.md is what the command prints") {
  const auto r = run_lathe({"operators"});
  REQUIRE_MESSAGE(r.status == 0, r.err);
  CHECK_MESSAGE(r.out == slurp(LATHE_SOURCE_ROOT "/docs/operators.md"), "run: lathe operators > docs/operators.md");
}

TEST_CASE("every verb explains itself with an example") {
  const auto overview = run_lathe({"--help"});
  CHECK(overview.status == 0);
  for (const char* verb : {"export", "import", "dump", "check", "run", "bench", "profile", "kernels", "dataset", "calibrate", "quantize",
                           "compile", "eval", "embed"}) {
    CAPTURE(std::string(verb));
    CHECK(overview.out.find(std::string("\n  ") + verb + " ") != std::string::npos);
    const auto help = run_lathe({verb, "--help"});
    CHECK(help.status == 0);
    CHECK(help.out.find(std::string("lathe ") + verb) != std::string::npos);
  }
}

TEST_CASE("wrong usage ends with status 2") {
  CHECK(run_lathe({}).status == 2);
  CHECK(run_lathe({"polish"}).status == 2);
  CHECK(run_lathe({"eval", kModel}).status == 2);
  CHECK(run_lathe({"bench", kModel, "--no-such-flag"}).status == 2);
}

TEST_CASE("a model goes through import, quantize, check and eval") {
  const TempFolder folder;
  const std::string model = folder.file("float.lathe");
  const auto imported = run_lathe({"import", kModel, "-o", model});
  REQUIRE_MESSAGE(imported.status == 0, imported.err);
  CHECK(imported.out.find("9 BatchNorm") != std::string::npos);
  const auto eval = json_of(run_lathe({"eval", int8_model(), "--data", kData, "--limit", "500", "--json"}));
  CHECK(number(eval, "samples") == 500);
  CHECK(number(eval, "accuracy") > 0.90);
  const auto check = json_of(run_lathe({"check", model, int8_model(), "--data", kData, "--limit", "200", "--json"}));
  CHECK(number(check, "sqnr_db") > 25);
  CHECK(number(check, "agreement") > 0.97);
  CHECK(run_lathe({"check", int8_model()}).out.find("1 self-check passed") != std::string::npos);
  CHECK(std::filesystem::file_size(int8_model()) < std::filesystem::file_size(kModel) * 0.33);
}

// The fashion set's first test pictures, with a group column whose rare value has 20 of 400 samples.
std::string grouped_set(const TempFolder& folder) {
  std::string groups = "device\n", text = slurp(kData);
  for (int i = 0; i < 10000; ++i) groups += i % 20 == 0 ? "old\n" : i % 2 == 0 ? "phone\n" : "watch\n";
  spill(folder.file("groups.csv"), groups);
  text.insert(text.find("[split.test]") + std::string("[split.test]").size(), "\ngroups = '" + folder.file("groups.csv") + "'");
  spill(folder.file("set.toml"), text);
  return folder.file("set.toml");
}

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

TEST_CASE("calibrate stores ranges that quantize takes without data") {
  const TempFolder folder;
  const std::string calibrated = folder.file("c.lathe"), direct = folder.file("d.lathe"), stored = folder.file("s.lathe");
  REQUIRE(run_lathe({"calibrate", kModel, "--data", kData, "--samples", "32", "-o", calibrated}).status == 0);
  REQUIRE(run_lathe({"quantize", calibrated, "-o", stored}).status == 0);
  REQUIRE(run_lathe({"quantize", kModel, "--data", kData, "--samples", "32", "-o", direct}).status == 0);
  const auto check = json_of(run_lathe({"check", direct, stored, "--data", kData, "--limit", "50", "--json"}));
  CHECK(number(check, "max_abs") == 0);
  check_refused(run_lathe({"quantize", kModel, "-o", folder.file("n.lathe")}), {"has no calibration", "--data"});
}

TEST_CASE("integer outputs are equal on every instruction set, thread count and batch") {
  const TempFolder folder;
  REQUIRE(write_npy(folder.file("x.npy"), images(16, 1, -0.4f)));
  std::string first;
  for (const char* isa : {"scalar", "avx2", "avx512", "avx512vnni"})
    for (const char* threads : {"1", "2"}) {
      CAPTURE(std::string(isa));
      const std::string y = folder.file("y.npy");
      const auto r =
          run_lathe({"run", int8_model(), "--input", folder.file("x.npy"), "--output", y, "--isa", isa, "--threads", threads});
      if (r.status != 0 && r.err.find("another architecture") != std::string::npos) continue;
      REQUIRE_MESSAGE(r.status == 0, r.err);
      if (first.empty()) first = slurp(y);
      CHECK(slurp(y) == first);
    }
  CHECK(first.size() > 640);
}

TEST_CASE("a quantized file does not depend on the number of threads") {
  const TempFolder folder;
  const std::string one = folder.file("1.lathe"), two = folder.file("2.lathe");
  REQUIRE(run_lathe({"quantize", kModel, "--data", kData, "--samples", "16", "--threads", "1", "-o", one}).status == 0);
  REQUIRE(run_lathe({"quantize", kModel, "--data", kData, "--samples", "16", "--threads", "2", "-o", two}).status == 0);
  CHECK(slurp(one) == slurp(two));
}

TEST_CASE("sensitivity lists layers, writes what to keep and a picture, and quantize reads it") {
  const TempFolder folder;
  const std::string keep = folder.file("keep.toml"), picture = folder.file("s.svg");
  const std::vector<std::string> command{"sensitivity", kModel, "--data", kData, "--samples", "32", "--limit", "300"};
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
  CHECK(done.out.find("pairs of layers equalized") != std::string::npos);
  CHECK(done.out.find("not equalized: fc: ") != std::string::npos);
  check_refused(run_lathe({"quantize", kModel, "--equalize", "-o", folder.file("n.lathe")}), {"--equalize", "--data"});
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
  REQUIRE(command({"add", kModel, "--name", "v0", "--tag", "original"}).status == 0);
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
  CHECK(command({"gc", "--keep", "0"}).out.find("removed v1") != std::string::npos);
  REQUIRE(command({"show", "current", "-o", folder.file("out.onnx")}).status == 0);
  CHECK(slurp(folder.file("out.onnx")) == slurp(kModel));
  CHECK(command({"verify"}).status == 0);
  check_refused(command({"add", kModel, "--name", "../x"}), {"cannot be the name of a version"});
  check_refused(command({"add", kModel, "--name", "x", "--latency", "here"}), {"is not DEVICE=MICROSECONDS"});
}

TEST_CASE("keep leaves an operator in float and says so") {
  const TempFolder folder;
  const auto json = json_of(run_lathe(
      {"quantize", kModel, "--data", kData, "--samples", "8", "--keep", "fc*", "--json", "-o", folder.file("k.lathe")}));
  bool found = false;
  for (const Tree& op : *json.find("ops")->as_array()) {
    if (*op.find("node")->as_string() != "fc") continue;
    found = true;
    CHECK(*op.find("int8")->as_bool() == false);
    CHECK(*op.find("reason")->as_string() == "kept float on request");
  }
  CHECK(found);
}

TEST_CASE("missing, foreign and damaged model files are one line each") {
  const TempFolder folder;
  check_refused(run_lathe({"import", folder.file("no.onnx"), "-o", folder.file("x.lathe")}), {"no.onnx"});
  check_refused(run_lathe({"bench", folder.file("no.lathe")}), {"no.lathe"});
  check_refused(run_lathe({"bench", kData}), {"ends in .onnx, .tflite or .lathe"});
  check_refused(run_lathe({"bench", folder.file("m.tflite")}), {"m.tflite"});
  spill(folder.file("text.lathe"), "this is no model, but it is longer than a header of sixty-four bytes would be");
  check_refused(run_lathe({"bench", folder.file("text.lathe")}), {"text.lathe"});
  const std::string whole = slurp(int8_model()), onnx = slurp(kModel);
  for (const size_t size : {size_t{0}, size_t{10}, size_t{100}, size_t{5000}, whole.size() - 1}) {
    spill(folder.file("cut.lathe"), whole.substr(0, size));
    check_refused(run_lathe({"bench", folder.file("cut.lathe"), "--seconds", "0.01"}), {"cut.lathe"});
  }
  for (const size_t size : {size_t{0}, size_t{100}, onnx.size() / 2, onnx.size() - 1}) {
    spill(folder.file("cut.onnx"), onnx.substr(0, size));
    check_refused(run_lathe({"import", folder.file("cut.onnx"), "-o", folder.file("cut.out.lathe")}), {"cut.onnx"});
    CHECK_FALSE(std::filesystem::exists(folder.file("cut.out.lathe")));
  }
}

TEST_CASE("a flipped bit in the weights is found by check") {
  const TempFolder folder;
  std::string bytes = slurp(int8_model());
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  spill(folder.file("flipped.lathe"), bytes);
  const auto r = run_lathe({"check", folder.file("flipped.lathe")});
  CHECK(r.status == 1);
  CHECK(line_count(r.err) == 1);
}

TEST_CASE("an output that cannot be written is refused before and after the work, and leaves nothing") {
  const TempFolder folder;
  check_refused(run_lathe({"import", kModel, "-o", folder.file("none/x.lathe")}), {"none"});
  check_refused(run_lathe({"import", kModel, "-o", folder.path()}), {folder.path()});
  if (std::filesystem::exists("/dev/full"))
    check_refused(run_lathe({"import", kModel, "-o", "/dev/full"}), {"/dev/full", "no space left"});
  CHECK(folder.entries() == 0);
}

TEST_CASE("data that does not fit the model is refused with both shapes") {
  const TempFolder folder;
  const std::string rgb = npy_set(folder, images(4, 3, 0), "calib");
  check_refused(run_lathe({"quantize", kModel, "--data", rgb, "-o", folder.file("x.lathe")}),
                {"input 'image'", "1x28x28", "3x28x28"});
  CHECK_FALSE(std::filesystem::exists(folder.file("x.lathe")));
}

TEST_CASE("an empty calibration set and NaN in it are errors that say so") {
  const TempFolder folder;
  const std::string empty = npy_set(folder, images(0, 1, 0), "calib");
  check_refused(run_lathe({"quantize", kModel, "--data", empty, "-o", folder.file("x.lathe")}), {"no samples"});
  HostTensor bad = images(4, 1, 0);
  bad.as<float>()[2 * 784 + 5] = __builtin_nanf("");
  const std::string nan = npy_set(folder, bad, "train");
  check_refused(run_lathe({"quantize", kModel, "--data", nan, "-o", folder.file("x.lathe")}), {"sample 2"});
}

TEST_CASE("data preprocessed in another way than the model stores is refused") {
  const TempFolder folder;
  const std::string plain = npy_set(folder, images(4, 1, 0), "test");
  check_refused(run_lathe({"check", int8_model(), int8_model(), "--data", plain}), {"preprocess"});
}

TEST_CASE("a gate that is not met ends with status 1") {
  const auto r = run_lathe({"check", kModel, int8_model(), "--data", kData, "--limit", "20", "--min-sqnr", "90"});
  CHECK(r.status == 1);
  CHECK(r.err.find("the gate is 90") != std::string::npos);
}

TEST_CASE("Ctrl-C stops calibration with one line and no output") {
  const TempFolder folder;
  const auto r = run_lathe(
      {"quantize", kModel, "--data", kData, "--samples", "55000", "--isa", "scalar", "-o", folder.file("x.lathe")}, {}, 1500);
  check_refused(r, {"interrupted"});
  CHECK(folder.entries() == 0);
}

TEST_CASE("an unknown instruction set lists the known ones, as flag and as environment variable") {
  check_refused(run_lathe({"bench", int8_model(), "--isa", "avx9"}), {"avx9", "avx512vnni"});
  check_refused(run_lathe({"bench", int8_model()}, {"LATHE_ISA=avx9"}), {"avx9", "avx512vnni"});
}

TEST_CASE("profile accounts for the whole run and writes a trace") {
  const TempFolder folder;
  const auto json =
      json_of(run_lathe({"profile", int8_model(), "--seconds", "0.05", "--json", "--trace", folder.file("trace.json")}));
  double sum = 0;
  for (const Tree& op : *json.find("ops")->as_array()) sum += number(op, "us");
  CHECK(sum == doctest::Approx(number(json, "total_us")).epsilon(1e-6));
  const auto trace = parse_json(slurp(folder.file("trace.json")), "trace");
  REQUIRE_MESSAGE(trace, trace.error().message);
  const auto text = run_lathe({"profile", int8_model(), "--seconds", "0.05"});
  CHECK(text.out.find("hold 80 % of the time") < text.out.find('\n'));
}

TEST_CASE("bench under load reports throughput, latency and the memory of a replica") {
  const auto closed = json_of(run_lathe({"bench", int8_model(), "--replicas", "2", "--clients", "3", "--seconds", "0.1", "--json"}));
  CHECK(number(closed, "replicas") == 2);
  CHECK(number(closed, "clients") == 3);
  CHECK(number(closed, "completed") > 0);
  CHECK(number(closed, "p50_us") <= number(closed, "p99_us"));
  CHECK(number(closed, "busy") > 0);
  CHECK(number(closed, "busy") <= 1);
  REQUIRE(closed.find("memory") != nullptr);
  CHECK(number(*closed.find("memory"), "per_replica_bytes") >= number(*closed.find("memory"), "arena_bytes") / 2);
  CHECK(number(*closed.find("memory"), "pss_bytes") > 0);
  const auto open =
      json_of(run_lathe({"bench", int8_model(), "--rate", "200", "--arrivals", "fixed", "--seconds", "0.5", "--json"}));
  CHECK(number(open, "offered_per_second") == 200);
  CHECK(number(open, "completed") + number(open, "unserved") >= 90);
  CHECK(number(open, "completed") <= 101);
  CHECK(run_lathe({"bench", int8_model(), "--clients", "2", "--rate", "5"}).status == 2);
  CHECK(run_lathe({"bench", int8_model(), "--deadline", "5"}).status == 2);
}

TEST_CASE("a sweep tells what one replica and all of them can serve") {
  const auto json = json_of(run_lathe({"bench", int8_model(), "--replicas", "2", "--sweep", "--seconds", "0.02", "--json"}));
  CHECK(json.find("findings")->as_array()->size() == 2);
  CHECK(json.find("steps")->as_array()->size() == 2 + 2 * 10);
  CHECK(number(json.find("findings")->as_array()->front(), "capacity_per_second") > 0);
  const auto text = run_lathe({"bench", int8_model(), "--sweep", "--deadline", "1000", "--seconds", "0.02"});
  // Which rates are served in windows this short is the machine's business; that each finding names the deadline is not.
  CHECK(text.out.find("1 replica: ") != std::string::npos);
  CHECK(text.out.find(" within 1000000 us") != std::string::npos);
  CHECK(text.out.find("replicas that fit: 1 of the 1 tried") != std::string::npos);
}

TEST_CASE("Ctrl-C ends a benchmark with what was measured") {
  for (const char* replicas : {"0", "2"}) {
    std::vector<std::string> args = {"bench", int8_model(), "--seconds", "600"};
    if (replicas[0] != '0') args.insert(args.end(), {"--replicas", replicas});
    const auto r = run_lathe(args, {}, 3000);
    CAPTURE(r.err);
    CHECK(r.status == 0);
    CHECK(r.out.find("p99 us") != std::string::npos);
    CHECK(r.out.find("interrupted") != std::string::npos);
  }
}

TEST_CASE("embed writes sources with the arena's size and the kernels that are used") {
  const TempFolder folder;
  const auto json =
      json_of(run_lathe({"embed", int8_model(), "-o", folder.path(), "--name", "fashion", "--with-cases", "--json"}));
  CHECK(number(json, "arena_bytes") >= number(json, "arena_lower_bound"));
  CHECK(json.find("kernels")->as_array()->size() >= 3);
  CHECK(folder.entries() == 3);
  check_refused(run_lathe({"embed", int8_model(), "-o", folder.path(), "--name", "no-identifier"}), {"no-identifier"});
}

TEST_CASE("run prints the best classes and refuses inputs of another shape") {
  const TempFolder folder;
  REQUIRE(write_npy(folder.file("x.npy"), images(1, 1, -0.4f)));
  REQUIRE(write_npy(folder.file("y.npy"), images(1, 2, -0.4f)));
  const auto json = json_of(run_lathe({"run", int8_model(), "--input", folder.file("x.npy"), "--top", "3", "--json"}));
  const auto& rows = *json.find("top")->as_array();
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].as_array()->size() == 3);
  check_refused(run_lathe({"run", int8_model(), "--input", folder.file("y.npy")}), {"input 'image'", "1x2x28x28"});
  check_refused(
      run_lathe({"run", int8_model(), "--input", "other=" + folder.file("x.npy"), "--input", "more=" + folder.file("x.npy")}),
      {"no value for input 'image'"});
}

TEST_CASE("an exported model is ONNX that gives the same results when it is imported") {
  const TempFolder folder;
  REQUIRE(write_npy(folder.file("x.npy"), images(2, 1, 0.5f)));
  const auto results = [&](const std::string& model) {
    const auto r = run_lathe({"run", model, "--input", folder.file("x.npy"), "--output", folder.file("y.npz")});
    REQUIRE_MESSAGE(r.status == 0, r.err);
    const auto arrays = read_npz(folder.file("y.npz"));
    REQUIRE(arrays);
    return (*arrays)[0].tensor.bytes;
  };
  const std::string onnx = folder.file("out.onnx");
  for (const std::string& model : {kModel, int8_model()}) {
    const auto r = run_lathe({"export", model, "-o", onnx});
    REQUIRE_MESSAGE(r.status == 0, r.err);
    CHECK(r.out.find("opset 17") != std::string::npos);
    CHECK(results(onnx) == results(model));
  }
  const std::string dynamic = folder.file("dynamic.lathe"), kept = slurp(onnx);
  REQUIRE(run_lathe({"quantize", kModel, "--dynamic", "-o", dynamic}).status == 0);
  const auto refused = run_lathe({"export", dynamic, "-o", onnx});
  CHECK(refused.status == 1);
  CHECK(refused.err.find("1 node cannot be exported:") != std::string::npos);
  CHECK(refused.err.find("(DynamicFullyConnected): ONNX has no operator that quantizes") != std::string::npos);
  CHECK(slurp(onnx) == kept);
  check_refused(run_lathe({"export", kModel, "-o", folder.file("none/out.onnx")}), {"none"});
}
