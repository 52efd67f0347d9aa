// lathe profile: where the time of a run goes, operator by operator.
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/atomic_file.h"
#include "base/cancel.h"
#include "base/json.h"
#include "runtime/host/cpu.h"
#include "runtime/host/profiler.h"
#include "tools/measured_model.h"
#include "tools/table.h"
#include "tools/timing.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  MeasureFlags measure;
  std::string by = "node", trace;
};

constexpr size_t kTraceEvents = 100000;

ProfileBy grouping(const std::string& by) {
  if (by == "op") return ProfileBy::kOp;
  return by == "kernel" ? ProfileBy::kKernel : ProfileBy::kNode;
}

std::string fixed(double v, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, v);
  return text;
}

// "the 5 of 31 nodes that hold 80 % of the time: a, b, c, d, e".
std::string headline(const std::vector<ProfileRow>& rows, const std::string& by) {
  size_t count = 0;
  std::string names;
  while (count < rows.size()) {
    const bool enough = count > 0 && rows[count - 1].cumulative_share >= 0.8;
    if (enough) break;
    names += (count == 0 ? "" : ", ") + rows[count].name;
    ++count;
  }
  return std::to_string(count) + " of " + std::to_string(rows.size()) + " " + by + (rows.size() == 1 ? "" : "s") +
         " hold 80 % of the time: " + names;
}

void print_text(const std::vector<ProfileRow>& rows, const std::string& by, double total_us, uint64_t runs) {
  std::printf("%s\n", headline(rows, by).c_str());
  uint64_t params = 0;
  for (const ProfileRow& r : rows) params += r.param_bytes;
  const bool by_node = by == "node";
  Table table({by, by_node ? "op" : "", "calls", "p50 us", "mean us", "share %", "sum %", "params %", "GOPS", "GB/s",
               by_node ? "kernel" : "such as"});
  for (const ProfileRow& r : rows)
    table.add({r.name, by_node ? r.op : "", std::to_string(r.calls), fixed(r.p50_ns / 1e3, 2), fixed(r.mean_ns / 1e3, 2),
               fixed(100 * r.share, 1), fixed(100 * r.cumulative_share, 1),
               fixed(params == 0 ? 0 : 100.0 * static_cast<double>(r.param_bytes) / static_cast<double>(params), 1),
               fixed(r.gops(), 1), fixed(r.gbytes_per_s(), 1), r.kernel});
  std::printf("%s", table.text().c_str());
  std::printf("sum of operators: %.2f us per run (medians), %llu runs\n", total_us, static_cast<unsigned long long>(runs));
}

void print_json(const std::vector<ProfileRow>& rows, const Options& o, const SessionOptions& session, double total_us,
                uint64_t runs) {
  Tree ops = Tree::array();
  for (const ProfileRow& r : rows) {
    Tree row = Tree::table();
    row.set("name", r.name)
        .set("op", r.op)
        .set("kernel", r.kernel)
        .set("calls", r.calls)
        .set("us", r.p50_ns / 1e3)
        .set("mean_us", r.mean_ns / 1e3);
    row.set("share", r.share)
        .set("cumulative_share", r.cumulative_share)
        .set("param_bytes", r.param_bytes)
        .set("gops", r.gops())
        .set("gbytes_per_s", r.gbytes_per_s());
    ops.push(std::move(row));
  }
  Tree out = Tree::table();
  out.set("total_us", total_us)
      .set("runs", runs)
      .set("threads", session.threads)
      .set("batch", o.measure.batch)
      .set("isa", isa_text(session.isa))
      .set("by", o.by);
  out.set("ops", std::move(ops));
  std::printf("%s\n", to_json(out).c_str());
}

Result<void> run(const Options& o) {
  if (!o.trace.empty()) LATHE_CHECK_OK(check_writable(o.trace));
  LATHE_TRY(MeasuredModel m, open_measured(o.measure));
  Profiler profiler(m.runner.session(), *m.model.program, o.trace.empty() ? 0 : kTraceEvents);
  LATHE_CHECK_OK(profile_runs(m.runner, profiler, o.measure.seconds));
  const std::vector<ProfileRow> rows = profiler.rows(grouping(o.by));
  const double total_us = profiler.p50_ns() / 1e3;
  if (o.measure.json)
    print_json(rows, o, m.session, total_us, profiler.runs());
  else
    print_text(rows, o.by, total_us, profiler.runs());
  if (o.trace.empty()) return {};
  std::ostringstream trace;
  profiler.write_trace(trace);
  return write_file_atomic(o.trace, trace.str());
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  o->measure.add_to(args);
  args.option("--by", o->by, "group by node, op or kernel").show_default().one_of({"node", "op", "kernel"});
  args.option("--trace", o->trace, "write a trace for Perfetto or chrome://tracing to this file");
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_profile{"profile", "show which operators cost the time", "lathe profile int8.lathe --by op", setup};

}  // namespace lathe::tools
