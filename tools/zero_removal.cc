#include "tools/zero_removal.h"

#include "graph/lineage.h"
#include "prune/constants.h"
#include "prune/groups.h"
#include "tools/markup.h"

namespace lathe::tools {
namespace {

class Removal {
 public:
  Removal(const std::string& model, const Graph& graph) : model_(model) { out_.graph = graph; }

  Result<ZeroOutcome> run(const Graph& original) {
    for (;;) {
      LATHE_TRY(const bool found, round());
      if (!found) break;
    }
    out_.before = network_size(original);
    out_.after = network_size(out_.graph);
    LATHE_TRY(out_.proof, prune::prove(original, out_.graph));
    for (const prune::Proof* p : {&out_.proof, &out_.masked})
      if (!p->passed && !out_.removed.empty())
        return fail(Code::kInvalidArgument,
                    model_ + ": without its zeros the network computes something else: " + proof_text(*p));
    if (!out_.removed.empty()) set_lineage(original, &out_.graph);
    return std::move(out_);
  }

 private:
  // One look; whether something went.
  Result<bool> round() {
    auto groups = prune::find_groups(out_.graph);
    if (!groups) return tl::unexpected<Error>(with_context(std::move(groups.error()), model_));
    LATHE_TRY(prune::Zeros zeros, prune::find_zeros(out_.graph, *groups));
    if (!zeros.branches.empty()) {
      for (const prune::Branch& b : zeros.branches) out_.removed.push_back({b.name, 0, 0, false});
      LATHE_TRY(const Graph masked, prune::mask_branches(out_.graph, zeros.branches));
      LATHE_TRY(Graph smaller, prune::remove_branches(out_.graph, zeros.branches));
      LATHE_CHECK_OK(accept(masked, std::move(smaller)));
      return true;
    }
    out_.notes = std::move(zeros.notes);
    out_.left = prune::weight_sparsity(out_.graph, *groups);
    if (!zeros.cuts.empty()) return cut(*groups, zeros.cuts, prune::Residue::kDrop);
    LATHE_TRY(const std::vector<prune::Cut> constants, prune::find_constants(out_.graph, *groups));
    return cut(*groups, constants, prune::Residue::kMerge);
  }

  Result<bool> cut(const std::vector<prune::Group>& groups, const std::vector<prune::Cut>& cuts, prune::Residue residue) {
    if (cuts.empty()) return false;
    for (const prune::Cut& c : cuts)
      out_.removed.push_back(
          {groups[c.group].name, c.channels.size(), groups[c.group].channels, residue != prune::Residue::kDrop});
    LATHE_TRY(const Graph masked, prune::mask(out_.graph, groups, cuts, {.residue = residue}));
    LATHE_TRY(prune::CutResult smaller, prune::cut(out_.graph, groups, cuts, {.residue = residue}));
    LATHE_CHECK_OK(accept(masked, std::move(smaller.graph)));
    return true;
  }

  Result<void> accept(const Graph& masked, Graph smaller) {
    LATHE_TRY(const prune::Proof proof, prune::prove(masked, smaller));
    if (first_ || proof.relative > out_.masked.relative) out_.masked = proof;
    first_ = false;
    out_.graph = std::move(smaller);
    return {};
  }

  const std::string& model_;
  ZeroOutcome out_;
  bool first_ = true;
};

std::string sparsity_text(const prune::Sparsity& s) {
  if (s.zeros == 0) return "";
  std::string text = formatted("unstructured: %.1f %% of the weights that are left are zero",
                               100.0 * static_cast<double>(s.zeros) / static_cast<double>(s.weights));
  if (s.two_of_four > 0) text += formatted(" (2 of every 4 in %zu of %zu layers with zeros)", s.two_of_four, s.layers);
  return text + ": no gain here, dense kernels multiply them all the same\n";
}

}  // namespace

Result<ZeroOutcome> remove_zeros(const std::string& model, const Graph& graph) { return Removal(model, graph).run(graph); }

std::string zeros_text(const ZeroOutcome& o) {
  std::string text;
  for (const ZeroOutcome::Row& r : o.removed)
    text += r.of == 0 ? "branch '" + r.name + "' adds zero: removed\n"
                      : formatted("'%s': %zu of %zu channels are %s: removed\n", r.name.c_str(), r.channels, r.of,
                                  r.constant ? "constant, their filters being zero" : "zero");
  for (const std::string& note : o.notes) text += "note: " + note + "\n";
  text += sparsity_text(o.left);
  if (o.removed.empty()) return text + "no structure is zero\n";
  text += formatted("parameters %llu -> %llu, multiply-accumulates %.0f -> %.0f\n",
                    static_cast<unsigned long long>(o.before.parameters), static_cast<unsigned long long>(o.after.parameters),
                    o.before.macs, o.after.macs);
  return text + proof_text(o.masked) + "\n" +
         formatted("the network that was given differs by %.3g\n", o.proof.largest_difference);
}

Tree zeros_json(const ZeroOutcome& o) {
  Tree removed = Tree::array(), notes = Tree::array(), out = Tree::table();
  for (const ZeroOutcome::Row& r : o.removed)
    removed.push(Tree(Tree::table()
                          .set("name", r.name)
                          .set("channels", r.channels)
                          .set("of", r.of)
                          .set("branch", r.of == 0)
                          .set("constant", r.constant)));
  for (const std::string& n : o.notes) notes.push(n);
  out.set("removed", std::move(removed)).set("notes", std::move(notes));
  out.set("weights", o.left.weights).set("zeros_left", o.left.zeros).set("two_of_four", o.left.two_of_four);
  out.set("before", size_json(o.before)).set("after", size_json(o.after));
  return out.set("masked", proof_json(o.masked)).set("original", proof_json(o.proof));
}

}  // namespace lathe::tools
