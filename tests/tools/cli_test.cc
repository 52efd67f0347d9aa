#include <doctest/doctest.h>

#include <filesystem>

#include "data/npy.h"
#include "tools/cli_checks.h"

using namespace lathe;
using namespace lathe::test;

namespace {

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
