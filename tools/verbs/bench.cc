// lathe bench: latency of whole runs, without the profiler.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>

#include "base/cancel.h"
#include "base/json.h"
#include "runtime/host/cpu.h"
#include "tools/model.h"
#include "tools/random_input.h"
#include "tools/runner.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string model;
  uint32_t batch = 1;
  double seconds = 1.0;
  uint32_t min_runs = 100;
  bool json = false;
  SessionFlags session;
  ImportFlags import;
};

double microseconds(Clock::time_point from, Clock::time_point to) { return std::chrono::duration<double, std::micro>(to - from).count(); }

// Latencies in microseconds, sorted. A quarter of the time is warm-up.
Result<std::vector<double>> measure(Runner& runner, const Options& o) {
  std::vector<double> us;
  us.reserve(1 << 20);
  const auto start = Clock::now();
  while (microseconds(start, Clock::now()) < o.seconds * 0.25e6) LATHE_CHECK_OK(runner.run());
  const auto begin = Clock::now();
  while (us.size() < o.min_runs || microseconds(begin, Clock::now()) < o.seconds * 1e6) {
    const auto t0 = Clock::now();
    LATHE_CHECK_OK(runner.run());
    us.push_back(microseconds(t0, Clock::now()));
    LATHE_CHECK_OK(check_cancelled());
  }
  std::sort(us.begin(), us.end());
  return us;
}

double percentile(const std::vector<double>& sorted, double p) {
  const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

// Resident bytes of this process, from the operating system; 0 where it does not say.
uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return statm ? resident * 4096 : 0;
}

void print_text(const Options& o, const SessionOptions& session, const HostModel& model, Runner& runner, const std::vector<double>& us, double mean) {
  std::printf("%s: batch %u, %u thread%s, %s, %zu runs\n", o.model.c_str(), o.batch, session.threads, session.threads == 1 ? "" : "s", isa_text(session.isa), us.size());
  Table table({"p50 us", "p99 us", "mean us", "runs/s", "samples/s"});
  const auto number = [](double v) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", v);
    return std::string(text);
  };
  table.add({number(percentile(us, 0.5)), number(percentile(us, 0.99)), number(mean), number(1e6 / mean), number(o.batch * 1e6 / mean)});
  std::printf("%s", table.text().c_str());
  std::printf("memory: mapped model %s, arena %s (lower bound %s), variables %s, process resident %s\n", bytes_text(static_cast<double>(model.file_bytes)).c_str(),
              bytes_text(static_cast<double>(runner.session().arena_bytes())).c_str(), bytes_text(runner.session().plan().arena_lower_bound).c_str(),
              bytes_text(static_cast<double>(runner.session().variable_bytes())).c_str(), bytes_text(static_cast<double>(resident_bytes())).c_str());
}

Result<void> run(const Options& o) {
  if (o.batch == 0) return fail(Code::kInvalidArgument, "--batch must be at least 1");
  LATHE_TRY(const SessionOptions session, o.session.options());
  LATHE_TRY(const HostModel model, load_host_model(o.model, o.import));
  LATHE_TRY(Runner runner, Runner::create(model.program, session));
  LATHE_TRY(const auto shapes, runner.shapes_for(o.batch));
  LATHE_CHECK_OK(runner.bind(shapes));
  fill_random_inputs(runner, 1);
  LATHE_TRY(const std::vector<double> us, measure(runner, o));
  const double mean = std::accumulate(us.begin(), us.end(), 0.0) / static_cast<double>(us.size());
  if (!o.json) {
    print_text(o, session, model, runner, us, mean);
    return {};
  }
  Tree out = Tree::table();
  out.set("p50_us", percentile(us, 0.5)).set("p99_us", percentile(us, 0.99)).set("mean_us", mean).set("per_second", o.batch * 1e6 / mean);
  out.set("threads", session.threads).set("batch", o.batch).set("isa", isa_text(session.isa)).set("runs", us.size());
  out.set("model_bytes", model.file_bytes).set("arena_bytes", runner.session().arena_bytes()).set("arena_lower_bound", runner.session().plan().arena_lower_bound);
  out.set("variable_bytes", runner.session().variable_bytes()).set("resident_bytes", resident_bytes());
  std::printf("%s\n", to_json(out).c_str());
  return {};
}

Action setup(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, ".lathe or .onnx file")->required();
  app.add_option("--batch", o->batch, "samples per run")->capture_default_str();
  app.add_option("--seconds", o->seconds, "how long to measure, after a quarter of it as warm-up")->capture_default_str()->check(CLI::Range(0.01, 3600.0));
  app.add_flag("--json", o->json, "print JSON");
  o->session.add_to(app);
  o->import.add_to(app);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_bench{"bench", "measure the latency of whole runs", "lathe bench int8.lathe --threads 1 --batch 1 --json", setup};

}  // namespace lathe::tools
