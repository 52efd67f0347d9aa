// lathe kernels: every kernel of this build, how fast each is here, and which one a shape gets.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/cancel.h"
#include "base/json.h"
#include "bench/kernels/kernel_case.h"
#include "bench/kernels/peak.h"
#include "runtime/host/cpu.h"
#include "tools/flags.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

using bench::BenchShape;
using bench::KernelCase;
using bench::ShapeKind;
using kernels::Kernel;

struct Options {
  bool json = false, bench = false, peak = false;
  std::string pattern, gemm, conv, depthwise;
  double milliseconds = 20;
  SessionFlags session;
};

std::string needs_text(kernels::IsaSet needs) {
  for (const auto& level : kernels::kIsaLevels)
    if (kernels::covers(level.set, needs)) return level.name;
  return "?";
}

const char* storage_text(const Kernel& k) { return k.storage == kernels::Storage::kU8 ? "u8" : "s8"; }

const char* state(const Kernel& kernel, kernels::IsaSet isa) {
  if (kernel.fn == nullptr) return "not in this build";
  return kernels::covers(isa, kernel.needs) ? "yes" : "no";
}

std::string fixed(double v, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, v);
  return text;
}

void print(Tree json) { std::printf("%s\n", to_json(json).c_str()); }

Tree kernel_tree(const Kernel& k, kernels::IsaSet isa) {
  Tree row = Tree::table();
  row.set("family", kernels::family_name(k.family))
      .set("name", k.name)
      .set("needs", needs_text(k.needs))
      .set("storage", storage_text(k))
      .set("in_build", k.fn != nullptr)
      .set("runs_here", std::string(state(k, isa)) == "yes");
  return row;
}

void list(const Options& o, kernels::IsaSet isa) {
  Table table({"family", "kernel", "needs", "8-bit storage", "runs here"});
  Tree json = Tree::array();
  for (const Kernel& k : kernels::all_kernels()) {
    table.add({kernels::family_name(k.family), k.name, needs_text(k.needs), storage_text(k), state(k, isa)});
    json.push(kernel_tree(k, isa));
  }
  if (o.json)
    print(Tree::table().set("isa", isa_text(isa)).set("kernels", std::move(json)));
  else
    std::printf("this machine: %s\n%s", isa_text(isa), table.text().c_str());
}

Result<void> list_peaks(const Options& o, kernels::IsaSet isa) {
  Table table({"what", "", "per thread"});
  Tree peak = Tree::table(), read = Tree::table();
  for (const bench::Probe& p : bench::probes()) {
    if (!kernels::covers(isa, p.needs)) continue;
    LATHE_CHECK_OK(check_cancelled());
    table.add({p.name, p.what, fixed(p.gops(), 1) + " GOPS"});
    peak.set(p.name, p.gops());
  }
  for (const bench::CacheLevel& level : bench::cache_levels()) {
    LATHE_CHECK_OK(check_cancelled());
    table.add(
        {std::string("read ") + level.name, bytes_text(static_cast<double>(level.bytes)), fixed(level.gb_per_s, 1) + " GB/s"});
    read.set(level.name, level.gb_per_s);
  }
  if (o.json)
    print(Tree::table().set("isa", isa_text(isa)).set("peak_gops", std::move(peak)).set("read_gb_per_s", std::move(read)));
  else
    std::printf("%s", table.text().c_str());
  return {};
}

struct Measured {
  KernelCase c;          // without its buffers
  bench::Timing timing;  // of one run on the slowest thread
  bool selected;
  double per_ns(double amount, uint32_t threads) const { return amount * threads / timing.median_ns; }
};

// Kernels are serial: with several threads each runs a case of its own at the same time.
Measured measure_on(const Kernel& k, const BenchShape& shape, const SessionOptions& session, double milliseconds) {
  std::vector<KernelCase> cases;
  for (uint32_t t = 0; t < session.threads; ++t) cases.push_back(bench::make_case(k, shape));
  std::vector<bench::Timing> timings(session.threads);
  const auto measure = [&](uint32_t t) { timings[t] = bench::time_case(cases[t], milliseconds); };
  std::vector<std::thread> others;
  for (uint32_t t = 1; t < session.threads; ++t) others.emplace_back(measure, t);
  measure(0);
  for (std::thread& t : others) t.join();
  const auto faster = [](const bench::Timing& a, const bench::Timing& b) { return a.median_ns < b.median_ns; };
  cases[0].run = nullptr;
  return {cases[0], *std::max_element(timings.begin(), timings.end(), faster), bench::is_selected(k, shape, session.isa)};
}

// Every kernel that runs here on `shapes` (empty: those listed for its family), families together.
Result<std::vector<Measured>> measure(const Options& o, const SessionOptions& session, const std::vector<BenchShape>& shapes) {
  std::vector<Measured> out;
  for (const Kernel& k : kernels::all_kernels()) {
    if (std::string(state(k, session.isa)) != "yes" || std::string(k.name).find(o.pattern) == std::string::npos) continue;
    const std::vector<ShapeKind> kinds = bench::shape_kinds(k.family);
    for (const BenchShape& s : shapes.empty() ? bench::shapes_of(k.family) : shapes) {
      if (std::find(kinds.begin(), kinds.end(), s.kind) == kinds.end()) continue;
      LATHE_CHECK_OK(check_cancelled());
      out.push_back(measure_on(k, s, session, o.milliseconds));
    }
  }
  return out;
}

void print_measured(const Options& o, const SessionOptions& session, const std::vector<Measured>& rows) {
  Table table({"chosen", "kernel", "shape", "us", "GOPS", "GB/s", "% of peak"});
  Tree json = Tree::array();
  for (const Measured& m : rows) {
    const double gops = m.per_ns(m.c.ops, session.threads), gb = m.per_ns(m.c.bytes, session.threads);
    const double share = bench::share_of_peak(m.c, m.timing.median_ns);
    table.add({m.selected ? "*" : "", m.c.kernel->name, m.c.shape.text(), fixed(m.timing.median_ns / 1e3, 2),
               gops > 0 ? fixed(gops, 1) : "", fixed(gb, 1), share > 0 ? fixed(100 * share, 1) : ""});
    Tree row = kernel_tree(*m.c.kernel, session.isa);
    row.set("shape", m.c.shape.text())
        .set("chosen", m.selected)
        .set("us", m.timing.median_ns / 1e3)
        .set("min_us", m.timing.min_ns / 1e3)
        .set("gops", gops)
        .set("gb_per_s", gb)
        .set("share_of_peak", share);
    json.push(std::move(row));
  }
  if (o.json) {
    print(Tree::table().set("isa", isa_text(session.isa)).set("threads", session.threads).set("kernels", std::move(json)));
    return;
  }
  std::printf("%s, %u thread%s; * is what a plan for this machine uses\n%s", isa_text(session.isa), session.threads,
              session.threads == 1 ? "" : "s", table.text().c_str());
}

Result<std::vector<BenchShape>> named_shapes(const Options& o) {
  std::vector<BenchShape> out;
  const struct {
    ShapeKind kind;
    const std::string& text;
  } kGiven[] = {{ShapeKind::kGemm, o.gemm}, {ShapeKind::kConv, o.conv}, {ShapeKind::kDepthwise, o.depthwise}};
  for (const auto& given : kGiven) {
    if (given.text.empty()) continue;
    LATHE_TRY(const BenchShape s, bench::parse_shape(given.kind, given.text));
    out.push_back(s);
  }
  return out;
}

Result<void> run(const Options& o) {
  LATHE_TRY(const SessionOptions session, o.session.options());
  LATHE_TRY(const std::vector<BenchShape> shapes, named_shapes(o));
  if (o.peak) return list_peaks(o, session.isa);
  if (!o.bench && shapes.empty()) {
    list(o, session.isa);
    return {};
  }
  LATHE_TRY(const std::vector<Measured> rows, measure(o, session, shapes));
  if (rows.empty()) return fail(Code::kInvalidArgument, "no kernel that runs here has '" + o.pattern + "' in its name");
  print_measured(o, session, rows);
  return {};
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  const Argument bench = args.option("--bench", o->pattern, "benchmark the kernels with PATTERN in their name, all without one")
                              .may_lack_value()
                              .type_name("PATTERN");
  args.option("--gemm", o->gemm, "time every kernel on this product").type_name("MxNxK");
  args.option("--conv", o->conv, "the same on a convolution of one image").type_name("HxWxC:OC:KERNEL:STRIDE");
  args.option("--depthwise", o->depthwise, "the same on a depthwise one").type_name("HxWxC:KERNEL:STRIDE");
  args.flag("--peak", o->peak, "measure what this CPU can do at most");
  args.option("--ms", o->milliseconds, "milliseconds per kernel and shape").show_default().range(1.0, 10000.0);
  args.flag("--json", o->json, "print JSON");
  o->session.add_to(args);
  return [o, bench] {
    o->bench = bench.given();
    return run(*o);
  };
}

}  // namespace

const Verb kVerb_kernels{"kernels", "list, benchmark and choose kernels", "lathe kernels --conv 56x56x64:64:3:1", setup};

}  // namespace lathe::tools
