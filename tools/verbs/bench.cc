// lathe bench: latency of whole runs, without the profiler, one after another or under load.
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>

#include "base/cancel.h"
#include "base/json.h"
#include "runtime/host/cpu.h"
#include "tools/measured_model.h"
#include "tools/replica_bench.h"
#include "tools/table.h"
#include "tools/timing.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

// Memory of this process that no file backs, in bytes; 0 where the operating system does not say.
uint64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    uint64_t kib = 0;
    if (key == "RssAnon:" && status >> kib) return kib * 1024;
  }
  return 0;
}

// What the process needs besides the mapped model and the arena: code's data, tables, buffers of this verb.
uint64_t runtime_bytes(const HostSession& session) {
  const uint64_t all = anonymous_bytes(), arena = session.arena_bytes() + session.variable_bytes();
  return all > arena ? all - arena : 0;
}

void print_text(const MeasureFlags& o, MeasuredModel& m, const std::vector<double>& us, double mean) {
  std::printf("%s: batch %u, %u thread%s, %s, %zu runs\n", o.model.c_str(), o.batch, m.session.threads,
              m.session.threads == 1 ? "" : "s", isa_text(m.session.isa), us.size());
  Table table({"p50 us", "p99 us", "mean us", "runs/s", "samples/s"});
  const auto number = [](double v) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", v);
    return std::string(text);
  };
  table.add({number(percentile(us, 0.5)), number(percentile(us, 0.99)), number(mean), number(1e6 / mean),
             number(o.batch * 1e6 / mean)});
  const auto size = [](uint64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  const HostSession& session = m.runner.session();
  if (cancel_requested()) std::printf("interrupted: this is what was measured\n");
  std::printf("%smemory: mapped model %s, runtime %s, arena %s (lower bound %s), variables %s\n", table.text().c_str(),
              size(m.model.file_bytes).c_str(), size(runtime_bytes(session)).c_str(), size(session.arena_bytes()).c_str(),
              size(session.plan().arena_lower_bound).c_str(), size(session.variable_bytes()).c_str());
}

void print_json(const MeasureFlags& o, MeasuredModel& m, const std::vector<double>& us, double mean) {
  const HostSession& session = m.runner.session();
  Tree out = Tree::table();
  out.set("p50_us", percentile(us, 0.5))
      .set("p99_us", percentile(us, 0.99))
      .set("mean_us", mean)
      .set("per_second", o.batch * 1e6 / mean);
  out.set("threads", m.session.threads).set("batch", o.batch).set("isa", isa_text(m.session.isa)).set("runs", us.size());
  out.set("interrupted", cancel_requested());
  out.set("model_bytes", m.model.file_bytes)
      .set("arena_bytes", session.arena_bytes())
      .set("arena_lower_bound", session.plan().arena_lower_bound);
  out.set("variable_bytes", session.variable_bytes()).set("runtime_bytes", runtime_bytes(session));
  std::printf("%s\n", to_json(out).c_str());
}

struct Options {
  MeasureFlags measure;
  LoadFlags load;
};

Result<void> run_alone(const MeasureFlags& o) {
  LATHE_TRY(MeasuredModel m, open_measured(o));
  LATHE_TRY(const auto measured, measure({&m.runner}, o.seconds));
  const std::vector<double>& us = measured[0];
  const double mean = std::accumulate(us.begin(), us.end(), 0.0) / static_cast<double>(us.size());
  if (o.json)
    print_json(o, m, us, mean);
  else
    print_text(o, m, us, mean);
  return {};
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  o->measure.add_to(args);
  o->load.add_to(args);
  return [o] { return o->load.given() ? bench_replicas(o->measure, o->load) : run_alone(o->measure); };
}

}  // namespace

const Verb kVerb_bench{"bench", "measure the latency of whole runs, alone or under load",
                       "lathe bench int8.lathe --threads 1 --batch 1 --json", setup};

}  // namespace lathe::tools
