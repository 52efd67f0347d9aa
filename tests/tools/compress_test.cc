// Recipes: what is refused, what a run makes, and that a run which is ended anywhere makes the same.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/folder.h"
#include "base/store/crash_point.h"
#include "base/store/registry.h"
#include "graph/file/model_file.h"
#include "quant/sample_runner.h"
#include "tests/graph/graph_run.h"
#include "tools/cli_checks.h"
#include "tools/compress/engine.h"

using namespace lathe;
using namespace lathe::tools;
using namespace lathe::test;

namespace {

namespace fs = std::filesystem;

constexpr int kFeatures = 6;

std::string matrix(const std::string& name, int rows, int columns, double turn) {
  std::string text = "constant %" + name + " : f32[" + std::to_string(rows) + "," + std::to_string(columns) + "] = [";
  for (int i = 0; i < rows * columns; ++i) text += (i == 0 ? "" : ",") + std::to_string(std::sin(turn * (i + 1)));
  return text + "]\n";
}

// Three layers, two of whose widths can shrink.
Graph network() {
  return parsed("input %x : f32[N,6]\n" + matrix("a", 16, 6, 1.7) + matrix("b", 16, 16, 2.3) + matrix("c", 3, 16, 0.9) +
                "%p = FullyConnected \"first\" (%x, %a) {lo=0}\n%q = FullyConnected \"second\" (%p, %b) {lo=0}\n"
                "%y = FullyConnected \"third\" (%q, %c)\noutput %y\n");
}

// A folder with a network and samples whose labels are its own answers, in groups of unequal size.
class Place {
 public:
  Place() {
    const Graph graph = network();
    REQUIRE(write_model(file("model.lathe"), graph));
    auto runner = SampleRunner::create(graph, {});
    REQUIRE(runner);
    std::ofstream csv(file("set.csv")), groups(file("groups.csv"));
    csv << "a,b,c,d,e,f,label\n";
    groups << "device\n";
    SampleSource source;
    source.count = 1500;
    source.fill = [](uint64_t i, const std::vector<void*>& inputs) -> Result<void> {
      for (int k = 0; k < kFeatures; ++k) static_cast<float*>(inputs[0])[k] = feature(i, k);
      return {};
    };
    for (uint64_t i = 0; i < source.count; ++i) {
      REQUIRE(runner->run(source, i, [](uint32_t, std::span<float>) {}));
      csv.precision(9);
      for (int k = 0; k < kFeatures; ++k) csv << feature(i, k) << ",";
      csv << argmax(runner->outputs()[0]) << "\n";
      groups << (i % 5 == 0 ? "old\n" : "new\n");
    }
    std::string toml = "format = 'csv'\ncolumns = ['a','b','c','d','e','f']\nlabel_column = 'label'\nclasses = ['0','1','2']\n";
    const auto split = [&](const char* name, int from, int to) {
      toml += "[split." + std::string(name) + "]\npaths = 'set.csv'\ngroups = 'groups.csv'\nrange = [" + std::to_string(from) + ", " + std::to_string(to) + "]\n";
    };
    split("train", 0, 300), split("calib", 300, 500), split("val", 500, 1000), split("test", 1000, 1500);
    spill(file("set.toml"), toml);
  }

  std::string file(const std::string& name) const { return folder_.file(name); }

  // A recipe of these steps; its work folder and registry are called after `name`.
  std::string recipe(const std::string& name, const std::string& steps, const std::string& gates = "max_drop = 50\nmax_group_drop = 60\n") const {
    spill(file(name + ".toml"), "model = 'model.lathe'\ndata = 'set.toml'\nname = 'net'\nseconds = 0.02\nregistry = '" + name + ".registry'\n[gates]\n" + gates + steps);
    return file(name + ".toml");
  }

 private:
  static float feature(uint64_t i, int k) { return static_cast<float>(std::sin(static_cast<double>(i * 31 + 7) * (k + 1.3))); }
  TempFolder folder_;
};

const std::string kSteps = "[[step]]\ndo = 'profile'\n[[step]]\ndo = 'fp16'\n[[step]]\ndo = 'quantize'\nsamples = 40\n";
// With everything that a run can be ended in.
const std::string kAllSteps = "[[step]]\ndo = 'fp16'\n[[step]]\ndo = 'prune'\nratio = 0.25\nmultiple = 1\n"
                              "[[step]]\ndo = 'train'\nepochs = 2\nbatch = 50\nrate = 0.01\nteacher = 'original'\nthreads = 1\n[[step]]\ndo = 'quantize'\nsamples = 40\n";

Result<CompressResult> run_quietly(const std::string& path, const std::string& cost_table = "") {
  auto recipe = read_recipe(path);
  if (!recipe) return tl::unexpected(recipe.error());
  if (!cost_table.empty()) recipe->cost_table = cost_table;
  return run_recipe(*recipe, [](const std::string&) {});
}

CompressResult ran(const std::string& path, const std::string& cost_table = "") {
  auto result = run_quietly(path, cost_table);
  REQUIRE_MESSAGE(result, result.error().message);
  return std::move(*result);
}

std::string last_of(const CompressResult& result) { return to_hex(result.rows[*result.last].model.hash); }

std::vector<std::string> versions_in(const std::string& registry) {
  std::vector<std::string> names;
  const auto r = Registry::open(registry, false);
  REQUIRE_MESSAGE(r, r.error().message);
  CHECK(r->verify()->empty());
  const auto versions = r->versions();
  REQUIRE(versions);
  for (const Version& v : *versions) names.push_back(v.name);
  return names;
}

int points_left = 0;
void end_at_point() {
  if (points_left-- == 0) ::_exit(9);
}

// The exit status of a process that runs the recipe and ends at crash point `point`.
int run_until(const std::string& path, const std::string& cost_table, int point) {
  const pid_t child = ::fork();
  if (child == 0) {
    points_left = point;
    crash_hook = end_at_point;
    ::_exit(run_quietly(path, cost_table) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a recipe makes, judges, measures and registers its versions") {
  const Place place;
  const CompressResult result = ran(place.recipe("plain", kSteps));
  REQUIRE(result.rows.size() == 3);
  CHECK(result.steps_run == 3);
  CHECK(result.failure.empty());
  const char* names[] = {"net-original", "net-fp16", "net-int8-mixed"};
  for (size_t i = 0; i < 3; ++i) {
    const CompressRow& row = result.rows[i];
    CHECK(row.version == names[i]);
    REQUIRE(row.latency);
    CHECK(row.latency->p50_us > 0);
    CHECK(row.latency->p99_us >= row.latency->p50_us);
    CHECK(row.latency->arena_bytes > 0);
    REQUIRE(row.report);
    CHECK(row.report->all.samples == 500);
    CHECK(row.report->groups.size() == 2);
    CHECK(row.choices.all.value > 0.9);
  }
  CHECK(result.choice_split == "val");
  CHECK(*result.last == 2);
  const auto registry = Registry::open(place.file("plain.registry"), false);
  REQUIRE(registry);
  const auto int8 = registry->find("net-int8-mixed");
  REQUIRE(int8);
  CHECK(int8->parent == "net-original");
  CHECK(int8->file == result.rows[2].model.hash);
  CHECK(int8->metrics.at("device=old").at("accuracy") > 0.9);
  CHECK(int8->latency_us.at(result.device) == result.rows[2].latency->p50_us);
  CHECK(std::stoul(int8->facts.at("arena_bytes")) == result.rows[2].latency->arena_bytes);
}

TEST_CASE("a second run finds everything, and a changed recipe repeats only what depends on the change") {
  const Place place;
  const CompressResult first = ran(place.recipe("again", kSteps));
  const CompressResult second = ran(place.recipe("again", kSteps));
  CHECK(second.steps_run == 0);
  CHECK(second.steps_found == 3);
  CHECK(last_of(second) == last_of(first));
  CHECK(second.rows[2].latency->p50_us == first.rows[2].latency->p50_us);
  const CompressResult changed = ran(place.recipe("again", "[[step]]\ndo = 'profile'\n[[step]]\ndo = 'fp16'\n[[step]]\ndo = 'quantize'\nsamples = 41\nper_tensor = true\nmixed = false\n"));
  CHECK(changed.steps_run == 1);
  CHECK(last_of(changed) != last_of(first));
  // The name is taken by other bytes.
  CHECK(changed.rows[2].version == "net-int8-mixed-" + last_of(changed).substr(0, 6));
  CHECK(versions_in(place.file("again.registry")).size() == 4);
  // A model that somebody damaged is made again.
  spill(first.rows[2].model.path, "nothing");
  const CompressResult repaired = ran(place.recipe("again", kSteps));
  CHECK(repaired.steps_run == 1);
  CHECK(last_of(repaired) == last_of(first));
}

TEST_CASE("a gate that does not hold ends the run and leaves what held, or steps back") {
  const Place place;
  const std::string bad = "[[step]]\ndo = 'fp16'\n[[step]]\ndo = 'quantize'\nmixed = false\nobserver = 'percentile'\npercentile = 50\n";
  const CompressResult stopped = ran(place.recipe("stop", bad, "max_drop = 0.5\n"));
  CHECK(stopped.failure.find("stop.toml: line 10, 'quantize': 1 gate does not hold:") != std::string::npos);
  CHECK(stopped.failure.find("accuracy fell by") != std::string::npos);
  REQUIRE(stopped.rows.size() == 3);
  CHECK(stopped.rows[2].outcome == "failed");
  CHECK(stopped.rows[2].choices.all.drop > 0.5);
  CHECK(*stopped.last == 0);
  CHECK(versions_in(place.file("stop.registry")) == std::vector<std::string>{"net-original", "net-fp16"});
  const CompressResult back = ran(place.recipe("back", bad, "max_drop = 0.5\non_fail = 'step-back'\n"));
  CHECK(back.failure.empty());
  CHECK(back.rows[2].outcome == "stepped back");
  CHECK(*back.last == 0);
  // A step's own gate wins.
  CHECK(ran(place.recipe("own", bad + "max_drop = 100\n", "max_drop = 0.5\n")).failure.empty());
}

TEST_CASE("a run that is ended between any two changes on disk makes the same model when it goes on") {
  const Place place;
  const std::string table = place.file("costs.json");
  const CompressResult whole = ran(place.recipe("whole", kAllSteps), table);
  const std::string path = place.recipe("ended", kAllSteps);
  int ended = 9, point = 0;
  for (; ended == 9; ++point) {
    REQUIRE(point < 200);
    ended = run_until(path, table, point);
  }
  CHECK(ended == 0);
  CHECK(point > 10);  // some twenty files, of which a run that goes on writes those that are missing
  const CompressResult resumed = ran(path, table);
  CHECK(resumed.steps_run == 0);
  for (size_t i = 0; i < whole.rows.size(); ++i) CHECK(resumed.rows[i].model.hash == whole.rows[i].model.hash);
  CHECK(whole.rows[2].version.empty());
  CHECK(whole.rows[2].outcome == "judged after the next step");
  CHECK(whole.rows[3].version == "net-pruned");
  CHECK(whole.rows[2].model.bytes < whole.rows[0].model.bytes);
  CHECK(Registry::open(place.file("ended.registry"), false)->find("pruned")->name == "net-pruned");
  CHECK(versions_in(place.file("ended.registry")) == versions_in(place.file("whole.registry")));
}

TEST_CASE("the plan says what is done and what is left, and writes nothing") {
  const Place place;
  const auto recipe = read_recipe(place.recipe("plan", kSteps));
  REQUIRE(recipe);
  const auto before = plan_recipe(*recipe);
  REQUIRE_MESSAGE(before, before.error().message);
  REQUIRE(before->steps.size() == 4);
  CHECK(before->sample_us > 0);
  for (const PlannedStep& s : before->steps) CHECK(!s.done);
  CHECK(before->steps[3].seconds > 0);
  CHECK(!fs::exists(place.file("plan.work")));
  CHECK(!fs::exists(place.file("plan.registry")));
  ran(place.recipe("plan", kSteps));
  const auto after = plan_recipe(*recipe);
  REQUIRE_MESSAGE(after, after.error().message);
  for (const PlannedStep& s : after->steps) CHECK(s.done);
}

TEST_CASE("a teacher that is not the original is refused before anything runs") {
  const Place place;
  Graph other = parsed("input %x : f32[N,6]\n" + matrix("w", 3, 6, 0.4) + "%y = FullyConnected \"only\" (%x, %w)\noutput %y\n");
  REQUIRE(write_model(place.file("other.lathe"), other));
  const auto with = [&](const std::string& teacher) {
    return run_quietly(place.recipe("taught", "[[step]]\ndo = 'profile'\n[[step]]\ndo = 'train'\nepochs = 1\nbatch = 50\nrate = 0.01\nteacher = '" + teacher + "'\n"));
  };
  const auto refused = with("other.lathe");
  REQUIRE(!refused);
  CHECK(refused.error().message.find("line 11, 'train': teacher '" + place.file("other.lathe") + "' is not the original") != std::string::npos);
  CHECK(refused.error().message.find("is not the original") != std::string::npos);
  // The original by another name will do.
  fs::copy_file(place.file("model.lathe"), place.file("copy.lathe"));
  const auto taken = with("copy.lathe");
  REQUIRE_MESSAGE(taken, taken.error().message);
  CHECK(taken->rows.back().version == "net-trained");
}

TEST_CASE("two runs do not share a work folder at once, and a quantized model is refused") {
  const Place place;
  const std::string path = place.recipe("locked", "[[step]]\ndo = 'quantize'\nsamples = 40\nmixed = false\n");
  ran(path);
  {
    const auto lock = lock_file(place.file("locked.work/lock"), WhenLocked::kFail);
    REQUIRE(lock);
    const auto refused = run_quietly(path);
    REQUIRE(!refused);
    CHECK(refused.error().message.find("another process works in this folder") != std::string::npos);
  }
  const CompressResult result = ran(path);
  fs::copy_file(result.rows[1].model.path, place.file("int8.lathe"));
  spill(place.file("q.toml"), "model = 'int8.lathe'\ndata = 'set.toml'\n[[step]]\ndo = 'profile'\n");
  const auto refused = run_quietly(place.file("q.toml"));
  REQUIRE(!refused);
  CHECK(refused.error().message.find("give the float model that it was made from") != std::string::npos);
}

TEST_CASE("the command prints a table or JSON, promotes, writes the model and a page") {
  const Place place;
  const std::string path = place.recipe("cli", kSteps);
  spill(path, "promote = true\n" + slurp(path));
  const auto json = json_of(run_lathe({"compress", path, "--json", "-o", place.file("final.lathe"), "--report", place.file("report.html")}));
  CHECK(json.find("versions")->as_array()->size() == 3);
  CHECK(number(json, "steps_run") == 3);
  CHECK(*json.find("last")->as_string() == "net-int8-mixed");
  CHECK(to_hex(hash128(std::string_view(slurp(place.file("final.lathe"))))) == *json.find("file")->as_string());
  CHECK(slurp(place.file("report.html")).find("</html>") != std::string::npos);
  const auto text = run_lathe({"compress", path});
  CHECK(text.status == 0);
  for (const char* part : {"net-original", "net-fp16", "net-int8-mixed", "p99 us", "worst group", "done before", "current: net-int8-mixed"})
    CHECK_MESSAGE(text.out.find(part) != std::string::npos, part);
  CHECK(run_lathe({"registry", "--help"}).status == 0);
  CHECK(run_lathe({"registry", "rollback", "--registry", place.file("cli.registry")}).out.find("current: net-original") != std::string::npos);
  const auto plan = run_lathe({"compress", path, "--dry-run"});
  CHECK(plan.out.find("done") != std::string::npos);
  check_refused(run_lathe({"compress", place.file("none.toml")}), {"none.toml"});
}

TEST_CASE("recipes with mistakes are refused with file and line") {
  struct Case {
    const char* text;
    const char* message;
  };
  const std::string head = "model = 'm.onnx'\ndata = 'd.toml'\n";
  const Case cases[] = {
      {"[[step]]\ndo = 'fp16'\nspeed = 3\n", "r.toml:5: unknown key 'speed'"},
      {"[[step]]\ndo = 'shrink'\n", "r.toml:4: no step 'shrink'; there are profile, "},
      {"[[step]]\nname = 'x'\n", "key 'do' is missing"},
      {"", "key 'step' is missing"},
      {"step = 3\n", "steps are tables [[step]]"},
      {"step = []\n", "steps are tables [[step]]"},
      {"colour = 'red'\n[[step]]\ndo = 'fp16'\n", "r.toml:3: unknown key 'colour'"},
      {"[[step]]\ndo = 'quantize'\n[[step]]\ndo = 'fp16'\n", "r.toml:5: 'fp16' comes after 'quantize' (line 3), which makes the model INT8"},
      {"[[step]]\ndo = 'quantize'\n[[step]]\ndo = 'quantize'\n", "comes after 'quantize'"},
      {"[[step]]\ndo = 'profile'\nmax_drop = 1\n", "r.toml:5: 'profile' makes no model"},
      {"[[step]]\ndo = 'fp16'\nmax_drop = -1\n", "'max_drop' must be at least 0"},
      {"[[step]]\ndo = 'fp16'\nmax_drop = 'much'\n", "r.toml:5: "},
      {"[[step]]\ndo = 'fp16'\non_fail = 'cry'\n", "'on_fail' is 'cry', must be stop or step-back"},
      {"[[step]]\ndo = 'fp16'\nname = '../x'\n", "'../x' cannot be the name of a version"},
      {"[gates]\nmax_dorp = 1\n[[step]]\ndo = 'fp16'\n", "r.toml:4: unknown key 'max_dorp'"},
      {"[gates]\nmax_drop = nan\n[[step]]\ndo = 'fp16'\n", "'max_drop' must be at least 0"},
      {"metric = 'beauty'\n[[step]]\ndo = 'fp16'\n", "unknown metric 'beauty'"},
      {"seconds = 0\n[[step]]\ndo = 'fp16'\n", "'seconds' must be above 0"},
      {"threads = -1\n[[step]]\ndo = 'fp16'\n", "r.toml:3: "},
      {"[[step]]\ndo = 'quantize'\nobserver = 'crystal'\n", "r.toml:5: unknown observer 'crystal'"},
      {"[[step]]\ndo = 'quantize'\nsamples = 0\n", "r.toml:5: "},
      {"[[step]]\ndo = 'quantize'\nadaround = true\nmixed = true\n", "INT8 throughout"},
      {"[[step]]\ndo = 'quantize'\nmixed = false\ntarget_latency = 2\n", "needs a choice of precisions"},
      {"[[step]]\ndo = 'quantize'\nbias_correction = 'yes'\n", "must be empirical or analytic"},
      {"[[step]]\ndo = 'quantize'\n[[step]]\ndo = 'prune'\nratio = 0.2\n", "'prune' comes after 'quantize' (line 3), which makes the model INT8: it must come before"},
      {"[[step]]\ndo = 'prune'\n", "r.toml:4: a prune step needs ratio, threshold, target_macs or target_latency"},
      {"[[step]]\ndo = 'prune'\nratio = 1\n", "r.toml:5: 'ratio' must be below 1"},
      {"[[step]]\ndo = 'prune'\nratio = 0.2\ntarget_macs = 1e6\n", "'target_macs' and 'ratio' exclude each other"},
      {"[[step]]\ndo = 'prune'\nratio = 0.2\ncriterion = 'luck'\n", "r.toml:6: "},
      {"[[step]]\ndo = 'prune'\nratio = 0.2\nby = 'weight'\n", "must be time, parameters or nothing"},
      {"[[step]]\ndo = 'quantize'\n[[step]]\ndo = 'train'\n", "'train' comes after 'quantize' (line 3)"},
      {"[[step]]\ndo = 'train'\nrate = 0.1\nbase_lr = 0.1\n", "r.toml:6: 'rate' and 'base_lr' exclude each other"},
      {"[[step]]\ndo = 'train'\nepochs = 0\n", "r.toml:5: "},
      {"[[step]]\ndo = 'train'\nalpha = 0.5\n", "'alpha' is about a teacher"},
      {"[[step]]\ndo = 'train'\nmomentum = 2\n", "'momentum' is 2, must be from 0 to 0.9999"},
      {"[[step]]\ndo = 'train'\noptimizer = 'magic'\n", "'optimizer' must be sgd or adamw"},
      {"[[step]]\ndo = 'train'\naugment = 'rainbow'\n", "r.toml:5: "},
      {"[[step]\n", "not valid TOML"},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.text));
    const auto recipe = parse_recipe(head + c.text, "r.toml", "");
    REQUIRE(!recipe);
    CAPTURE(recipe.error().message);
    CHECK(recipe.error().message.find(c.message) != std::string::npos);
  }
  CHECK(parse_recipe("data = 'd'\n[[step]]\ndo = 'fp16'\n", "r.toml", "").error().message == "r.toml: key 'model' is missing");
}
