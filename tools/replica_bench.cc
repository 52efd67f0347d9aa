#include "tools/replica_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/json.h"
#include "runtime/host/cpu.h"
#include "tools/replicas.h"
#include "tools/table.h"

namespace lathe::tools {
namespace {

// A step of a sweep: `offered` 0 for clients that wait.
struct Step {
  uint32_t replicas;
  double offered;
  LoadResult result;
};

// Where latency leaves the flat part: p99 beyond this many times the median at the lightest load, if no deadline is given.
constexpr double kFlat = 4;
// A replica more is worth it while it adds this share of what one alone serves.
constexpr double kWorthIt = 0.1;
constexpr double kKeepsUp = 0.98;
constexpr double kSharesOfCapacity[] = {0.1, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0};

LoadOptions options(const MeasureFlags& m, const LoadFlags& f, uint32_t clients, double rate) {
  LoadOptions o;
  o.clients = clients;
  o.rate = rate;
  o.arrivals = f.arrivals == "fixed" ? Arrivals::kFixed : Arrivals::kPoisson;
  o.seconds = m.seconds;
  o.warmup_seconds = warmup_seconds(m.seconds);
  return o;
}

std::string us(double v) { return fmt::format("{:.1f}", v); }

std::vector<std::string> columns() {
  return {"replicas", "offered/s", "served/s", "busy %", "mean us", "p50 us", "p99 us", "max us", "unserved"};
}

std::vector<std::string> cells(const Step& s) {
  const LoadResult& r = s.result;
  return {std::to_string(s.replicas), s.offered == 0 ? "" : us(s.offered), us(r.per_second()), us(100 * r.busy),
          us(r.latency.mean_us()), us(r.latency.quantile_us(0.5)), us(r.latency.quantile_us(0.99)), us(r.latency.max_us()), std::to_string(r.unserved)};
}

Tree json(const Step& s, uint32_t batch) {
  const LoadResult& r = s.result;
  Tree t = Tree::table();
  t.set("replicas", s.replicas).set("offered_per_second", s.offered).set("requests_per_second", r.per_second());
  t.set("per_second", r.per_second() * batch).set("busy", r.busy).set("mean_us", r.latency.mean_us());
  t.set("p50_us", r.latency.quantile_us(0.5)).set("p99_us", r.latency.quantile_us(0.99)).set("max_us", r.latency.max_us());
  t.set("completed", r.completed).set("unserved", r.unserved).set("seconds", r.seconds).set("interrupted", r.interrupted);
  return t;
}

std::string size(uint64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

std::string memory_text(const Replicas& all) {
  const ReplicaMemory& m = all.memory;
  const uint64_t known = m.arena + m.variables;
  return fmt::format(
      "memory: model file {}, mapped once; each replica {}: arena {}, variables {}, plan and buffers {}\n"
      "        process {} resident, {} with shared pages by their part (PSS)\n",
      size(all.model.file_bytes), size(m.per_replica), size(m.arena), size(m.variables),
      size(m.per_replica > known ? m.per_replica - known : 0), size(m.process.resident), size(m.process.proportional));
}

Tree memory_json(const Replicas& all) {
  const ReplicaMemory& m = all.memory;
  Tree t = Tree::table();
  t.set("model_bytes", all.model.file_bytes).set("per_replica_bytes", m.per_replica).set("arena_bytes", m.arena);
  t.set("variable_bytes", m.variables).set("resident_bytes", m.process.resident).set("pss_bytes", m.process.proportional);
  t.set("available_bytes", available_memory());
  return t;
}

void describe_run(const MeasureFlags& m, const Replicas& all, Tree* t) {
  t->set("threads", all.session.threads).set("batch", m.batch).set("isa", isa_text(all.session.isa));
}

std::string title(const MeasureFlags& m, const Replicas& all) {
  return fmt::format("{}: {} replica{} of {} thread{} on {} CPU{}, batch {}, {}\n", m.model, all.runners.size(),
                     all.runners.size() == 1 ? "" : "s", all.session.threads, all.session.threads == 1 ? "" : "s", usable_cpus(),
                     usable_cpus() == 1 ? "" : "s", m.batch, isa_text(all.session.isa));
}

Result<Step> measure(Replicas& all, uint32_t replicas, const LoadOptions& o) {
  LATHE_TRY(LoadResult r, run_load(all.services(replicas), o));
  if (r.seconds == 0) return fail(Code::kCancelled, "interrupted before anything was measured");
  return Step{replicas, o.rate, std::move(r)};
}

Result<void> run_once(const MeasureFlags& m, const LoadFlags& f, Replicas& all) {
  const auto count = static_cast<uint32_t>(all.runners.size());
  LATHE_TRY(const Step step, measure(all, count, options(m, f, f.clients == 0 ? count : f.clients, f.rate)));
  if (m.json) {
    Tree out = json(step, m.batch);
    describe_run(m, all, &out);
    out.set("clients", f.rate > 0 ? 0 : f.clients == 0 ? count : f.clients).set("memory", memory_json(all));
    std::printf("%s\n", to_json(out).c_str());
    return {};
  }
  Table table(columns());
  table.add(cells(step));
  std::printf("%s%s%s%s", title(m, all).c_str(), table.text().c_str(), memory_text(all).c_str(),
              step.result.interrupted ? "interrupted: this is what was measured\n" : "");
  return {};
}

// 1, 2, 4, ... and all.
std::vector<uint32_t> replica_counts(uint32_t most) {
  std::vector<uint32_t> counts;
  for (uint32_t n = 1; n < most; n *= 2) counts.push_back(n);
  counts.push_back(most);
  return counts;
}

// What a sweep of one number of replicas found.
struct Finding {
  uint32_t replicas;
  double capacity;  // per second, clients that wait
  double limit_us;  // of p99
  double flat;      // highest rate that kept p99 within it and was served; 0: none did
};

class Sweep {
 public:
  Sweep(const MeasureFlags& m, const LoadFlags& f, Replicas& all) : m_(m), f_(f), all_(all) {}

  Result<void> run() {
    const std::vector<uint32_t> counts = replica_counts(static_cast<uint32_t>(all_.runners.size()));
    for (const uint32_t n : counts) LATHE_CHECK_OK(add(n, n, 0));
    for (const uint32_t n : counts)
      if (n == 1 || n == counts.back()) LATHE_CHECK_OK(raise(n));
    return {};
  }

  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<Finding>& findings() const { return findings_; }
  bool interrupted() const { return interrupted_; }
  double capacity(uint32_t replicas) const {
    for (const Step& s : steps_)
      if (s.offered == 0 && s.replicas == replicas) return s.result.per_second();
    return 0;
  }
  // The most replicas of those tried that were each worth their place.
  uint32_t worth() const {
    uint32_t n = 1;
    for (const Step& s : steps_)
      if (s.offered == 0 && s.result.per_second() - capacity(n) >= kWorthIt * capacity(1) * (s.replicas - n)) n = s.replicas;
    return n;
  }

 private:
  // A step that was interrupted does not count; those before it do.
  Result<void> add(uint32_t replicas, uint32_t clients, double rate) {
    if (interrupted_) return {};
    auto step = measure(all_, replicas, options(m_, f_, clients, rate));
    interrupted_ = step ? step->result.interrupted : step.error().code == Code::kCancelled;
    if (interrupted_) return {};
    if (!step) return tl::unexpected<Error>(step.error());
    steps_.push_back(std::move(*step));
    return {};
  }

  // Raises the rate on `n` replicas until it is more than they serve.
  Result<void> raise(uint32_t n) {
    Finding found{n, capacity(n), f_.deadline_ms * 1e3, 0};
    bool flat = true;
    for (const double share : kSharesOfCapacity) {
      LATHE_CHECK_OK(add(n, 0, share * found.capacity));
      if (interrupted_) break;
      const LoadResult& r = steps_.back().result;
      if (found.limit_us == 0) found.limit_us = kFlat * r.latency.quantile_us(0.5);
      flat = flat && r.latency.quantile_us(0.99) <= found.limit_us && r.per_second() >= kKeepsUp * steps_.back().offered;
      if (flat) found.flat = steps_.back().offered;
    }
    findings_.push_back(found);
    return {};
  }

  const MeasureFlags& m_;
  const LoadFlags& f_;
  Replicas& all_;
  std::vector<Step> steps_;
  std::vector<Finding> findings_;
  bool interrupted_ = false;
};

std::string finding_text(const Finding& f) {
  const std::string who = f.replicas == 1 ? "1 replica" : std::to_string(f.replicas) + " replicas";
  if (f.flat == 0)
    return fmt::format("{}: {:.0f}/s at most; no rate was served in full with p99 within {:.0f} us\n", who, f.capacity, f.limit_us);
  return fmt::format("{}: {:.0f}/s at most; p99 stays within {:.0f} us up to {:.0f}/s, {:.0f} % of that\n", who, f.capacity,
                     f.limit_us, f.flat, 100 * f.flat / f.capacity);
}

void print_sweep(const MeasureFlags& m, const Replicas& all, const Sweep& sweep) {
  Table closed(columns()), open(columns());
  for (const Step& s : sweep.steps()) (s.offered == 0 ? closed : open).add(cells(s));
  std::printf("%sas many clients as replicas, each waiting for its answer:\n%s", title(m, all).c_str(), closed.text().c_str());
  std::printf("requests on a schedule, latency from the time when each was due:\n%s", open.text().c_str());
  for (const Finding& f : sweep.findings()) std::printf("%s", finding_text(f).c_str());
  const uint64_t each = std::max<uint64_t>(1, all.memory.per_replica);
  std::printf("replicas that fit: %u of the %zu tried are worth their place on %u CPUs; %s of free memory would take %llu more\n",
              sweep.worth(), all.runners.size(), usable_cpus(), size(available_memory()).c_str(),
              static_cast<unsigned long long>(available_memory() / each));
  std::printf("%s%s", memory_text(all).c_str(), sweep.interrupted() ? "interrupted: this is what was measured\n" : "");
}

void print_sweep_json(const MeasureFlags& m, const Replicas& all, const Sweep& sweep) {
  Tree steps = Tree::array(), findings = Tree::array(), out = Tree::table();
  for (const Step& s : sweep.steps()) steps.push(json(s, m.batch));
  for (const Finding& f : sweep.findings()) {
    Tree t = Tree::table();
    t.set("replicas", f.replicas).set("capacity_per_second", f.capacity);
    t.set("p99_limit_us", f.limit_us).set("flat_per_second", f.flat);
    findings.push(std::move(t));
  }
  describe_run(m, all, &out);
  out.set("replicas_worth_it", sweep.worth()).set("interrupted", sweep.interrupted()).set("memory", memory_json(all));
  out.set("findings", std::move(findings)).set("steps", std::move(steps));
  std::printf("%s\n", to_json(out).c_str());
}

}  // namespace

void LoadFlags::add_to(Arguments& args) {
  args.option("--replicas", replicas, "sessions that share the mapped model, each on a thread of its own (1)").range(1, 256);
  Argument c = args.option("--clients", clients, "clients that wait for their answers (one per replica)").range(1, 65536);
  Argument q = args.option("--rate", rate, "requests per second instead; latency counts from when each was due").range(1e-3, 1e7);
  Argument s = args.flag("--sweep", sweep, "raise the load step by step and show where latency leaves the flat part");
  args.option("--arrivals", arrivals, "of --rate and --sweep: poisson or fixed").show_default().one_of({"poisson", "fixed"});
  args.option("--deadline", deadline_ms, "of --sweep: what p99 may be, in ms, instead of 4 times the median at light load")
      .range(1e-3, 1e6)
      .needs(s);
  c.excludes(q);
  s.excludes(c).excludes(q);
}

Result<void> bench_replicas(const MeasureFlags& m, const LoadFlags& f) {
  LATHE_TRY(Replicas all, open_replicas(m, std::max(1u, f.replicas)));
  if (!f.sweep) return run_once(m, f, all);
  Sweep sweep(m, f, all);
  LATHE_CHECK_OK(sweep.run());
  if (sweep.steps().empty()) return fail(Code::kCancelled, "interrupted before anything was measured");
  if (m.json)
    print_sweep_json(m, all, sweep);
  else
    print_sweep(m, all, sweep);
  return {};
}

}  // namespace lathe::tools
