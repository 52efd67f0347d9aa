// lathe prune from the command line: targets, refusals, the proof, and that the same costs give the same network.
#include "tools/cli_checks.h"

namespace lathe::test {
namespace {

const Tree& part(const Tree& tree, const char* key) {
  REQUIRE(tree.find(key) != nullptr);
  return *tree.find(key);
}

double before(const Tree& tree, const char* key) { return number(part(tree, "before"), key); }
double after(const Tree& tree, const char* key) { return number(part(tree, "after"), key); }

// `lathe prune` of the float model with these flags, quickly.
CommandResult prune(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"prune", kModel, "--seconds", "0.02"});
  return run_lathe(flags);
}

// The data set with 256 samples to train on and 100 to judge by.
std::string few_samples() {
  std::string text = slurp(kData);
  const auto put = [&](const std::string& from, const std::string& to) {
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
  };
  put("[0, 53800]", "[0, 256]");
  put("[55000, 60000]", "[59900, 60000]");
  return text;
}

TEST_CASE("a ratio makes the network smaller, and the masked network computes what the rewritten one does") {
  const TempFolder folder;
  const std::string out = folder.file("small.lathe");
  const Tree t = json_of(prune({"--ratio", "0.25", "--by", "nothing", "-o", out, "--json"}));
  CHECK(number(t, "gone") / number(t, "channels") == doctest::Approx(0.25).epsilon(0.1));
  CHECK(after(t, "parameters") < 0.8 * before(t, "parameters"));
  CHECK(after(t, "macs") < 0.8 * before(t, "macs"));
  CHECK(number(part(t, "proof"), "max_rel") < 1e-4);
  const auto dump = run_lathe({"dump", out});
  CHECK(dump.status == 0);
  CHECK(dump.out.find("lineage_root") != std::string::npos);
  CHECK(number(json_of(run_lathe({"bench", out, "--seconds", "0.02", "--json"})), "p50_us") > 0);
}

TEST_CASE("a plan shows every group with its histogram and what would go, and writes nothing") {
  const auto r = prune({"--ratio", "0.3", "--uniform", "--plan"});
  REQUIRE_MESSAGE(r.status == 0, r.err);
  for (const char* text : {"histogram", "stays whole", "multiply-accumulates", "ms (median)", "SQNR"})
    CHECK(r.out.find(text) != std::string::npos);
  CHECK(r.out.find("wrote") == std::string::npos);
  check_refused(prune({"--ratio", "0.3"}), {"-o out.lathe", "--plan"});
}

TEST_CASE("even a ratio of 0.99 leaves every group channels") {
  const Tree t = json_of(prune({"--ratio", "0.99", "--max-group-ratio", "1", "--by", "parameters", "--plan", "--json"}));
  for (const Tree& g : *part(t, "groups").as_array()) CHECK(number(g, "left") >= 1);
  REQUIRE(part(t, "notes").as_array()->size() == 1);
}

TEST_CASE("a target in multiply-accumulates is met, and one out of reach is an error with the nearest figure") {
  const Tree t = json_of(prune({"--target-macs", "3e6", "--criterion", "l2", "--by", "nothing", "--plan", "--json"}));
  CHECK(before(t, "macs") > 3e6);
  CHECK(after(t, "macs") <= 3e6);
  check_refused(prune({"--target-macs", "10", "--plan"}), {"no plan has 10 multiply-accumulates", "with all that can go"});
}

TEST_CASE("a target latency is measured: out of reach it is an error, above the network's own nothing goes") {
  check_refused(prune({"--target-latency", "1e-6", "--plan"}), {"no plan has 1e-06 ms"});
  const Tree t = json_of(prune({"--target-latency", "1e6", "--plan", "--json"}));
  CHECK(number(t, "gone") == 0);
  CHECK(number(t, "networks") == 1);
}

TEST_CASE("the same table of costs gives the same file, measured latencies included") {
  const TempFolder folder;
  const std::string a = folder.file("a.lathe"), b = folder.file("b.lathe");
  std::string table, target;
  // On a busy machine a target can be out of reach for a moment: then the network is measured again.
  for (int attempt = 0, status = 1; status != 0; ++attempt) {
    REQUIRE(attempt < 10);
    table = folder.file("costs" + std::to_string(attempt) + ".json");
    const Tree whole = json_of(prune({"--ratio", "0.25", "--plan", "--cost-table", table, "--json"}));
    target = std::to_string(0.8 * before(whole, "p50_us") / 1e3);
    status = prune({"--target-latency", target, "--cost-table", table, "-o", a}).status;
  }
  const Tree again = json_of(prune({"--target-latency", target, "--cost-table", table, "-o", b, "--json"}));
  CHECK(number(again, "networks") == 0);
  CHECK(slurp(a) == slurp(b));
}

TEST_CASE("gamma ranks what has batch normalizations; of a network without any it is an error that names other criteria") {
  const Tree t =
      json_of(prune({"--threshold", "0.9", "--criterion", "gamma", "--by", "nothing", "--multiple", "1", "--plan", "--json"}));
  CHECK(number(t, "gone") > 0);
  const std::string encoder = LATHE_SOURCE_ROOT "/tests/oracle/models/tiny_encoder.onnx";
  check_refused(run_lathe({"prune", encoder, "--ratio", "0.25", "--criterion", "gamma", "--plan"}),
                {"batch normalization", "l1 or taylor"});
}

TEST_CASE("a quantized network must be pruned before") {
  check_refused(run_lathe({"prune", int8_model(), "--ratio", "0.25", "--plan"}), {"quantized", "prune"});
  check_refused(run_lathe({"prune", int8_model(), "--zeros", "--plan"}), {"quantized", "prune"});
}

TEST_CASE("taylor and activation ask for data, and rank differently with it") {
  check_refused(prune({"--ratio", "0.25", "--criterion", "taylor", "--plan"}), {"taylor needs --data"});
  std::vector<Tree> groups;
  for (const char* criterion : {"taylor", "activation", "random"}) {
    const Tree t = json_of(prune({"--ratio", "0.25", "--criterion", criterion, "--by", "nothing", "--data", kData, "--samples",
                                  "64", "--plan", "--json"}));
    groups.push_back(part(t, "groups"));
    CHECK(number(t, "gone") > 0);
  }
  CHECK_FALSE(groups[0] == groups[1]);
  CHECK_FALSE(groups[1] == groups[2]);
}

TEST_CASE("groups that are kept stay whole, and one target is given") {
  check_refused(prune({"--ratio", "0.25", "--keep", "*", "--plan"}), {"no channel can go", "kept"});
  check_refused(prune({"--plan"}), {"--ratio, --threshold, --target-macs and --target-latency"});
  CHECK(prune({"--ratio", "0.25", "--threshold", "1", "--plan"}).status == 2);
  check_refused(prune({"--ratio", "1.5", "--plan"}), {"ratio is 1.5"});
}

TEST_CASE("rounds need data and a file to write, and train what they cut") {
  check_refused(prune({"--ratio", "0.25", "--schedule", "iterative", "--plan"}), {"give -o out.lathe"});
  const TempFolder folder;
  const std::string out = folder.file("tuned.lathe");
  check_refused(prune({"--ratio", "0.25", "--schedule", "iterative", "-o", out}), {"--data set.toml"});
  const std::string few = folder.file("few.toml");
  spill(few, few_samples());
  const Tree t = json_of(prune({"--ratio", "0.1", "--by", "nothing", "--schedule", "iterative", "--rounds", "2", "--epochs", "1",
                                "--base-lr", "0.1", "--max-drop", "100", "--data", few, "-o", out, "--json"}));
  CHECK(part(t, "rounds").as_array()->size() == 2);
  CHECK(*part(t, "reached").as_bool());
  const auto dump = run_lathe({"dump", out});
  CHECK(dump.out.find("lineage_root") != std::string::npos);
}

TEST_CASE("heads by coverage: refused without data, without heads, towards other targets, and of a quantized network") {
  const std::vector<std::string> coverage{"--criterion", "coverage", "--plan"};
  const auto heads = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), coverage.begin(), coverage.end());
    return prune(std::move(flags));
  };
  check_refused(heads({"--ratio", "0.3"}), {"give --data set.toml"});
  check_refused(heads({"--target-macs", "1e6", "--data", kData}), {"heads go by --ratio"});
  check_refused(heads({"--ratio", "1", "--data", kData}), {"ratio is 1"});
  check_refused(heads({"--ratio", "0.3", "--data", kData, "--schedule", "iterative"}), {"--schedule once or stepwise"});
  check_refused(heads({"--ratio", "0.3", "--data", kData}), {"fashion_resnet.onnx: no attention heads can go: the network has none"});
  check_refused(run_lathe({"prune", int8_model(), "--ratio", "0.3", "--criterion", "coverage", "--data", kData, "--plan"}),
                {"quantized", "prune"});
  CHECK(heads({"--ratio", "0.3", "--heads", "--only-heads"}).status == 2);
}

// Ones and zeros of [40, 6, 16] floats, and the classes: a set that the encoder of tests/oracle takes.
std::string encoder_set(const TempFolder& folder) {
  std::string values, labels, users = "user\n";
  for (uint32_t i = 0; i < 40 * 96; ++i) values.append(std::string("\0\0", 2) + (i * 2654435761u >> 30 == 0 ? std::string("\0\0", 2) : "\x80\x3f"));
  for (int i = 0; i < 40; ++i) labels += std::to_string(i % 16) + "\n", users += i < 32 ? "ann\n" : "bob\n";
  spill(folder.file("users.csv"), users);
  spill(folder.file("x.bin"), values);
  spill(folder.file("y.txt"), labels);
  std::string classes;
  for (int i = 0; i < 16; ++i) classes += (i ? ", \"" : "\"") + std::to_string(i) + "\"";
  const std::string path = folder.file("set.toml");
  spill(path, "format = \"raw\"\nclasses = [" + classes +
                  "]\n[[input]]\nname = \"x\"\ndtype = \"f32\"\nshape = [6, 16]\n[split.val]\npaths = \"x.bin\"\nlabels = \"y.txt\"\ngroups = \"users.csv\"\n");
  return path;
}

TEST_CASE("heads go stepwise by coverage, and the table shows what each was worth") {
  const TempFolder folder;
  const std::string encoder = LATHE_SOURCE_ROOT "/tests/oracle/models/tiny_encoder.onnx", set = encoder_set(folder);
  const std::string out = folder.file("heads.lathe");
  const std::vector<std::string> flags{"prune", encoder, "--ratio", "0.5", "--schedule", "stepwise", "--max-drop", "1000",
                                       "--data", set, "--seconds", "0.02", "-o", out};
  auto coverage = flags;
  coverage.insert(coverage.end(), {"--criterion", "coverage", "--json"});
  const Tree t = json_of(run_lathe(coverage));
  CHECK(number(t, "gone") == 1);
  CHECK(number(t, "heads") == 2);
  CHECK(number(part(t, "proof"), "max_rel") < 1e-4);
  CHECK(after(t, "parameters") < before(t, "parameters"));
  const auto& rows = *part(t, "rows").as_array();
  REQUIRE(rows.size() == 2);
  // A user with fewer than 30 samples is noise.
  REQUIRE(part(t, "groups").as_array()->size() == 1);
  CHECK(*(*part(t, "groups").as_array())[0].as_string() == "user=ann");
  CHECK(part(rows[0], "group_coverage").as_array()->size() == 1);
  for (const char* key : {"contribution", "correlation", "redundancy", "coverage", "lost"}) CHECK(number(rows[0], key) >= 0);
  CHECK(run_lathe({"dump", out}).out.find("lineage_root") != std::string::npos);
  auto magnitude = flags;
  magnitude.insert(magnitude.end(), {"--criterion", "l2"});
  const auto r = run_lathe(magnitude);
  REQUIRE_MESSAGE(r.status == 0, r.err);
  for (const char* text : {"importance", "1 of 2 heads went", "ms (median)", "SQNR"}) CHECK(r.out.find(text) != std::string::npos);
}

TEST_CASE("a residual block goes whole by name, proved and measured") {
  const TempFolder folder;
  const std::string out = folder.file("short.lathe");
  const Tree t = json_of(prune({"--remove", "stage2.add", "-o", out, "--json"}));
  REQUIRE(part(t, "removed").as_array()->size() == 1);
  CHECK(number(part(t, "proof"), "max_rel") < 1e-4);
  CHECK(after(t, "macs") < before(t, "macs"));
  CHECK(after(t, "p50_us") > 0);
  CHECK(run_lathe({"dump", out}).out.find("stage2.add") == std::string::npos);
  CHECK(part(json_of(prune({"--remove", "stage*", "--plan", "--json"})), "removed").as_array()->size() == 3);
  check_refused(prune({"--remove", "stage9", "--plan"}), {"'stage9' fits no branch", "stage1.add, stage2.add, stage3.add"});
  check_refused(run_lathe({"prune", int8_model(), "--remove", "stage2.add", "--plan"}), {"quantized", "prune"});
  CHECK(prune({"--remove", "stage2.add", "--ratio", "0.3", "--plan"}).status == 2);
}

TEST_CASE("a network without zeros stays as it is") {
  const auto r = run_lathe({"prune", kModel, "--zeros", "--plan"});
  REQUIRE_MESSAGE(r.status == 0, r.err);
  CHECK(r.out.find("no structure is zero") != std::string::npos);
}

}  // namespace
}  // namespace lathe::test
