#include <algorithm>
#include <cmath>

#include "runtime/host/cpu.h"
#include "tools/markup.h"
#include "tools/pruning.h"
#include "tools/table.h"

namespace lathe::tools {
namespace {

constexpr size_t kBins = 16;

double largest_shown(const PrunePlan& plan) {
  double largest = 0;
  for (const GroupPlan& g : plan.groups)
    for (const double v : g.shown) largest = std::max(largest, v);
  return largest;
}

// Counts of values in kBins bins over [0, high].
std::vector<uint64_t> histogram(const std::vector<double>& values, double high) {
  std::vector<uint64_t> counts(values.empty() ? 0 : kBins, 0);
  for (const double v : values) ++counts[high > 0 ? std::min(kBins - 1, static_cast<size_t>(v / high * kBins)) : 0];
  return counts;
}

// One letter per bin, denser for more; a blank bin is empty.
std::string bars(const std::vector<uint64_t>& counts) {
  constexpr char kLetters[] = ".:-=+*#%@";
  const uint64_t most = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  std::string text = "|";
  for (const uint64_t n : counts) text += n == 0 ? ' ' : kLetters[(n * (sizeof kLetters - 2) + most - 1) / most];
  return counts.empty() ? "" : text + "|";
}

const char* unit_of(PruneBy by) {
  return by == PruneBy::kTime ? "us/channel" : by == PruneBy::kParameters ? "params/channel" : "cost";
}
const char* name_of(PruneBy by) { return by == PruneBy::kTime ? "time" : by == PruneBy::kParameters ? "parameters" : "nothing"; }

std::string groups_text(const PrunePlan& plan, const PruneRequest& request) {
  const double high = largest_shown(plan);
  Table table({"group", "channels", "go", "left", unit_of(request.by), "histogram", "stays whole"});
  for (const GroupPlan& g : plan.groups)
    table.add({g.name, std::to_string(g.channels), g.goes.empty() ? "" : std::to_string(g.goes.size()),
               std::to_string(g.channels - g.goes.size()), g.stays.empty() ? formatted("%.3g", g.cost) : "",
               bars(histogram(g.shown, high)), g.stays});
  const bool gamma = request.criterion == prune::Criterion::kGamma;
  return table.text() +
         formatted(
             "histograms: channels by %s, from 0 to %.3g\n",
             gamma
                 ? "|gamma|"
                 : ("importance (" + std::string(prune::criterion_name(request.criterion)) + ", 1 is the group's mean)").c_str(),
             high);
}

std::string percent_less(double before, double after) {
  return before > 0 ? formatted("%+.1f", 100 * (after - before) / before) : "";
}

// One line: JSON has a row per layer.
std::string residues_text(const std::vector<prune::ResidueRow>& residues) {
  size_t absorbed = 0;
  const prune::ResidueRow* worst = nullptr;
  for (const prune::ResidueRow& r : residues) {
    absorbed += r.absorbed;
    if (!r.absorbed && (worst == nullptr || r.largest > worst->largest)) worst = &r;
  }
  if (residues.empty()) return "";
  std::string text = formatted("residue: channels that went emitted constants into %zu layers; %zu have them in their bias now",
                               residues.size(), absorbed);
  if (worst != nullptr)
    text += formatted(", %zu lost them (up to %.3g, into '%s': %s)", residues.size() - absorbed, worst->largest,
                      worst->layer.c_str(), worst->why.c_str());
  return text + "\n";
}

Tree group_json(const GroupPlan& g, double high) {
  Tree goes = Tree::array(), counts = Tree::array(), out = Tree::table();
  for (const uint32_t c : g.goes) goes.push(c);
  for (const uint64_t n : histogram(g.shown, high)) counts.push(n);
  out.set("name", g.name).set("channels", g.channels).set("left", g.channels - g.goes.size()).set("goes", std::move(goes));
  if (!g.stays.empty()) return out.set("stays", g.stays);
  return out.set("cost", g.cost).set("histogram", std::move(counts));
}

}  // namespace

std::string sizes_text(const NetworkSize& a, const NetworkSize& b, const SessionOptions& session, uint32_t batch) {
  Table table({"", "before", "after", "%"});
  const auto row = [&](const char* what, double before, double after, const std::string& x, const std::string& y) {
    table.add({what, x, y, percent_less(before, after)});
  };
  const auto count = [](uint64_t n) { return std::to_string(n); };
  row("parameters", static_cast<double>(a.parameters), static_cast<double>(b.parameters), count(a.parameters),
      count(b.parameters));
  row("multiply-accumulates", a.macs, b.macs, formatted("%.0f", a.macs), formatted("%.0f", b.macs));
  row("bytes of constants", static_cast<double>(a.bytes), static_cast<double>(b.bytes), count(a.bytes), count(b.bytes));
  if (a.ms && b.ms) row("ms (median)", *a.ms, *b.ms, formatted("%.4f", *a.ms), formatted("%.4f", *b.ms));
  std::string text = table.text();
  if (a.ms)
    text += formatted("latency: float, %u thread%s, batch %u, %s, measured in turns\n", session.threads,
                      session.threads == 1 ? "" : "s", batch, isa_text(session.isa));
  return text;
}

std::string plan_text(const PrunePlan& plan, const PruneRequest& request) {
  std::string text = groups_text(plan, request);
  text += formatted("%llu of %llu channels go (%.1f %%), by %s", static_cast<unsigned long long>(plan.gone),
                    static_cast<unsigned long long>(plan.channels),
                    plan.channels == 0 ? 0 : 100.0 * static_cast<double>(plan.gone) / static_cast<double>(plan.channels),
                    prune::criterion_name(request.criterion));
  text += request.uniform ? ", the same share of every group\n" : formatted(" per %s\n", name_of(request.by));
  if (plan.networks > 0) text += formatted("%zu networks were measured for the target\n", plan.networks);
  for (const std::string& note : plan.notes) text += "note: " + note + "\n";
  return text + residues_text(plan.residues) + sizes_text(plan.before, plan.after, request.session, request.batch);
}

std::string proof_text(const prune::Proof& proof) {
  return formatted("masked and rewritten differ by %.3g at most (%.2g of the largest of output '%s'), SQNR %.1f dB",
                   proof.largest_difference, proof.relative, proof.output.c_str(), proof.sqnr_db);
}

Tree size_json(const NetworkSize& s) {
  Tree out = Tree::table();
  out.set("parameters", s.parameters).set("macs", s.macs).set("bytes", s.bytes);
  if (s.ms) out.set("p50_us", 1e3 * *s.ms);
  return out;
}

Tree proof_json(const prune::Proof& proof) {
  Tree out = Tree::table();
  return out.set("max_abs", proof.largest_difference).set("max_rel", proof.relative).set("sqnr_db", proof.sqnr_db);
}

Tree plan_json(const PruneOutcome& outcome, const PruneRequest& request) {
  const PrunePlan& plan = outcome.plan;
  Tree groups = Tree::array(), notes = Tree::array(), residues = Tree::array(), out = Tree::table();
  const double high = largest_shown(plan);
  for (const GroupPlan& g : plan.groups) groups.push(group_json(g, high));
  for (const std::string& n : plan.notes) notes.push(n);
  for (const prune::ResidueRow& r : plan.residues)
    residues.push(Tree(Tree::table()
                           .set("group", r.group)
                           .set("layer", r.layer)
                           .set("channels", r.channels)
                           .set("largest", r.largest)
                           .set("absorbed", r.absorbed)
                           .set("why", r.why)));
  out.set("criterion", prune::criterion_name(request.criterion)).set("by", request.uniform ? "uniform" : name_of(request.by));
  out.set("channels", plan.channels).set("gone", plan.gone).set("histogram_high", high).set("networks", plan.networks);
  out.set("threads", request.session.threads).set("batch", request.batch).set("isa", isa_text(request.session.isa));
  out.set("before", size_json(plan.before)).set("after", size_json(plan.after)).set("proof", proof_json(outcome.proof));
  return out.set("groups", std::move(groups)).set("residues", std::move(residues)).set("notes", std::move(notes));
}

}  // namespace lathe::tools
