#include <algorithm>

#include "tools/head_pruning.h"
#include "tools/markup.h"
#include "tools/table.h"

namespace lathe::tools {
namespace {

constexpr size_t kGroupsShown = 6;  // user groups that get columns of their own

std::string goes_text(const HeadRow& row) { return row.step == 0 ? "" : formatted("step %u", row.step); }

std::string coverage_table(const HeadsOutcome& o) {
  std::vector<std::string> columns{"block", "head", "contribution", "correlation", "redundancy", "like", "coverage"};
  const bool shown = o.user_groups.size() <= kGroupsShown;
  if (shown) columns.insert(columns.end(), o.user_groups.begin(), o.user_groups.end());
  if (!shown) columns.push_back("least of a group");
  columns.insert(columns.end(), {"lost %", "low or covered", "goes"});
  Table table(columns);
  for (const HeadRow& row : o.rows) {
    const prune::HeadScore& s = *row.score;
    std::vector<std::string> cells{row.block, std::to_string(row.head), formatted("%.4g", s.contribution),
                                   formatted("%.3f", s.correlation), formatted("%.3f", s.redundancy), std::to_string(s.nearest),
                                   formatted("%.3f", s.coverage)};
    if (shown)
      for (const double r2 : s.group_coverage) cells.push_back(formatted("%.3f", r2));
    else
      cells.push_back(formatted("%.3f", *std::min_element(s.group_coverage.begin(), s.group_coverage.end())));
    cells.insert(cells.end(), {formatted("%.3f", 100 * s.lost), s.may_go ? "yes" : "", goes_text(row)});
    table.add(cells);
  }
  return table.text() +
         "contribution: mean length of what the head adds; correlation: with the block's output; redundancy: CKA with the head that "
         "is most like it;\ncoverage: R^2 from the other heads, by user group too; lost: of the energy of the sum behind the block. In the network "
         "that was given.\n";
}

std::string importance_table(const HeadsOutcome& o) {
  Table table({"block", "head", "importance", "goes"});
  for (const HeadRow& row : o.rows)
    table.add({row.block, std::to_string(row.head), formatted("%.3f", row.importance), goes_text(row)});
  return table.text();
}

std::string list(const std::vector<std::pair<std::string, uint32_t>>& heads) {
  std::string text;
  for (const auto& [block, head] : heads) text += (text.empty() ? "" : ", ") + block + ":" + std::to_string(head);
  return text;
}

Tree list_json(const std::vector<std::pair<std::string, uint32_t>>& heads) {
  Tree out = Tree::array();
  for (const auto& [block, head] : heads) out.push(Tree(Tree::table().set("block", block).set("head", head)));
  return out;
}

Tree row_json(const HeadRow& row) {
  Tree out = Tree::table();
  out.set("block", row.block).set("head", row.head).set("step", row.step);
  if (!row.score) return out.set("importance", row.importance);
  Tree groups = Tree::array();
  for (const double r2 : row.score->group_coverage) groups.push(r2);
  out.set("contribution", row.score->contribution).set("correlation", row.score->correlation);
  out.set("redundancy", row.score->redundancy).set("like", row.score->nearest).set("coverage", row.score->coverage);
  return out.set("group_coverage", std::move(groups)).set("lost", row.score->lost).set("may_go", row.score->may_go);
}

}  // namespace

std::string heads_text(const HeadsOutcome& o, const HeadOptions& options) {
  std::string text = options.coverage ? coverage_table(o) : importance_table(o);
  Table steps({"step", "heads", "coverage", "lost %", "drop", ""});
  size_t number = 0;
  for (const HeadStep& s : o.steps)
    steps.add({std::to_string(++number), list(s.heads) + (s.back.empty() ? "" : " for " + list(s.back)),
               options.coverage ? formatted("%.3f", s.r2) : "", options.coverage ? formatted("%.3f", 100 * s.lost) : "",
               formatted("%.2f", s.drop), s.kept ? "kept" : "taken back"});
  text += steps.text();
  text += formatted("%zu of %zu heads went\n", o.gone, o.heads);
  for (const std::string& note : o.notes) text += "note: " + note + "\n";
  return text;
}

Tree heads_json(const HeadsOutcome& o, const HeadOptions& options) {
  Tree rows = Tree::array(), steps = Tree::array(), groups = Tree::array(), notes = Tree::array(), out = Tree::table();
  for (const HeadRow& row : o.rows) rows.push(row_json(row));
  for (const HeadStep& s : o.steps) {
    steps.push(Tree(Tree::table()
                        .set("heads", list_json(s.heads))
                        .set("back", list_json(s.back))
                        .set("coverage", s.r2)
                        .set("lost", s.lost)
                        .set("drop", s.drop)
                        .set("kept", s.kept)));
  }
  for (const std::string& g : o.user_groups) groups.push(g);
  for (const std::string& n : o.notes) notes.push(n);
  out.set("criterion", options.coverage ? "coverage" : prune::criterion_name(options.criterion));
  out.set("heads", o.heads).set("gone", o.gone).set("wanted", o.wanted).set("reached", o.reached());
  out.set("before", size_json(o.before)).set("after", size_json(o.after)).set("proof", proof_json(o.proof));
  out.set("rows", std::move(rows)).set("steps", std::move(steps));
  return out.set("groups", std::move(groups)).set("notes", std::move(notes));
}

}  // namespace lathe::tools
