#include "tools/branch_removal.h"

#include <algorithm>

#include "graph/lineage.h"
#include "prune/groups.h"
#include "quant/decide.h"
#include "tools/markup.h"
#include "tools/network_timer.h"

namespace lathe::tools {
namespace {

bool fits(const Graph& graph, const prune::Branch& branch, const std::string& name) {
  if (matches_pattern(name, branch.name)) return true;
  return std::any_of(branch.nodes.begin(), branch.nodes.end(),
                     [&](NodeId n) { return matches_pattern(name, graph.node(n).name); });
}

// The sum of `inner` only serves `outer`.
bool lies_in(const prune::Branch& inner, const prune::Branch& outer) {
  return std::find(outer.nodes.begin(), outer.nodes.end(), inner.sum) != outer.nodes.end();
}

std::string names_of(const std::vector<prune::Branch>& branches) {
  std::string text;
  for (const prune::Branch& b : branches) text += (text.empty() ? "" : ", ") + b.name;
  return text;
}

// Those that a name fits, without those that go with another.
Result<std::vector<prune::Branch>> chosen(const Graph& graph, const std::vector<std::string>& names) {
  const std::vector<prune::Branch> all = prune::find_branches(graph);
  if (all.empty()) return fail(Code::kInvalidArgument, "the network has no branch beside a shortcut that could go whole");
  std::vector<bool> wanted(all.size());
  for (const std::string& name : names) {
    bool found = false;
    for (size_t i = 0; i < all.size(); ++i)
      if (fits(graph, all[i], name)) found = wanted[i] = true;
    if (!found)
      return fail(Code::kInvalidArgument, "'" + name + "' fits no branch beside a shortcut; there are " + names_of(all));
  }
  std::vector<prune::Branch> out;
  for (size_t i = 0; i < all.size(); ++i) {
    bool inside = false;
    for (size_t k = 0; k < all.size(); ++k) inside = inside || (wanted[k] && lies_in(all[i], all[k]));
    if (wanted[i] && !inside) out.push_back(all[i]);
  }
  return out;
}

}  // namespace

Result<BranchOutcome> remove_named(const Graph& graph, const std::vector<std::string>& names, const PruneRequest& request) {
  LATHE_CHECK_OK(prune::find_groups(graph));  // refuses what is quantized
  LATHE_TRY(const std::vector<prune::Branch> branches, chosen(graph, names));
  BranchOutcome out;
  LATHE_TRY(const Graph masked, prune::mask_branches(graph, branches));
  LATHE_TRY(out.graph, prune::remove_branches(graph, branches));
  LATHE_TRY(out.proof, prune::prove(masked, out.graph));
  if (!out.proof.passed)
    return fail(Code::kInvalidArgument, "the rewritten network does not compute what the masked one does: " + proof_text(out.proof));
  for (const prune::Branch& b : branches) out.removed.push_back({b.name, b.nodes.size()});
  set_lineage(graph, &out.graph);
  out.before = network_size(graph);
  out.after = network_size(out.graph);
  LATHE_TRY(const NetworkTimer timer, NetworkTimer::open(request.cost_table, request.session, request.batch, request.seconds));
  LATHE_TRY(const auto ms, timer.in_turns(graph, out.graph));
  out.before.ms = ms.first;
  out.after.ms = ms.second;
  return out;
}

std::string branches_text(const BranchOutcome& o, const PruneRequest& request) {
  std::string text;
  for (const BranchOutcome::Row& r : o.removed) text += formatted("branch '%s' of %zu nodes removed\n", r.name.c_str(), r.nodes);
  return text + sizes_text(o.before, o.after, request.session, request.batch) + proof_text(o.proof) + "\n";
}

Tree branches_json(const BranchOutcome& o) {
  Tree removed = Tree::array(), out = Tree::table();
  for (const BranchOutcome::Row& r : o.removed) removed.push(Tree(Tree::table().set("name", r.name).set("nodes", r.nodes)));
  out.set("removed", std::move(removed)).set("before", size_json(o.before)).set("after", size_json(o.after));
  return out.set("proof", proof_json(o.proof));
}

}  // namespace lathe::tools
