// lathe conformance: runs the test cases that the ONNX project publishes and says which pass.
#include "tools/conformance.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include "base/cancel.h"
#include "base/json.h"
#include "tools/flags.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string folder;
  std::vector<std::string> match;
  bool list = false, json = false, in_process = false;
  CaseOptions run;
  SessionFlags session;
};

struct Case {
  std::string name;
  CaseResult result;
};

struct Tally {
  size_t passed = 0, fixed = 0, failed = 0, unsupported = 0;  // fixed: of those passed
  std::map<std::string, size_t> reasons;                      // why unsupported
  void add(const CaseResult& r) {
    passed += r.outcome == Outcome::kPassed;
    fixed += r.outcome == Outcome::kPassed && r.fixed;
    failed += r.outcome == Outcome::kFailed;
    unsupported += r.outcome == Outcome::kUnsupported;
    if (r.outcome == Outcome::kUnsupported) ++reasons[r.reason];
  }
  size_t total() const { return passed + failed + unsupported; }
};

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed: return "passed";
    case Outcome::kFailed: return "failed";
    case Outcome::kUnsupported: return "unsupported";
  }
  return "";
}

bool is_chosen(const std::string& name, const std::vector<std::string>& patterns) {
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(),
                                         [&](const std::string& p) { return ::fnmatch(p.c_str(), name.c_str(), 0) == 0; });
}

std::string line_of(const Case& c) {
  const CaseResult& r = c.result;
  std::string s = outcome_name(r.outcome) + std::string(" ") + c.name + " (" + r.op + (r.fixed ? ", fixed inputs)" : ")");
  return r.reason.empty() ? s : s + ": " + r.reason;
}

Result<std::vector<Case>> run_cases(const Options& o) {
  LATHE_TRY(const auto folders, find_cases(o.folder));
  std::vector<Case> cases;
  for (const std::string& folder : folders) {
    LATHE_CHECK_OK(check_cancelled());
    const std::string name = std::filesystem::path(folder).filename().string();
    if (!is_chosen(name, o.match)) continue;
    cases.push_back({name, o.in_process ? run_case(folder, o.run) : run_case_isolated(folder, o.run)});
    if (o.list && !o.json) std::printf("%s\n", line_of(cases.back()).c_str());
  }
  if (cases.empty()) return fail(Code::kInvalidArgument, "no case has a name like that");
  return cases;
}

void print_text(const std::vector<Case>& cases, const Tally& all, const std::map<std::string, Tally>& by_op) {
  Table table({"operator", "passed", "(fixed)", "failed", "unsupported"});
  for (const auto& [op, t] : by_op)
    table.add({op, std::to_string(t.passed), std::to_string(t.fixed), std::to_string(t.failed), std::to_string(t.unsupported)});
  std::printf("%s", table.text().c_str());
  if (all.unsupported != 0) std::printf("\nunsupported:\n");
  for (const auto& [op, t] : by_op)
    for (const auto& [reason, count] : t.reasons) std::printf("%5zu  %s: %s\n", count, op.c_str(), reason.c_str());
  if (all.failed != 0) std::printf("\n");
  for (const Case& c : cases)
    if (c.result.outcome == Outcome::kFailed) std::printf("%s\n", line_of(c).c_str());
  std::printf("\n%zu cases: %zu passed (%zu of them with inputs fixed by --const or --shape), %zu failed, %zu unsupported\n",
              all.total(), all.passed, all.fixed, all.failed, all.unsupported);
}

Tree tally_tree(const Tally& t) {
  return Tree::table().set("passed", t.passed).set("fixed", t.fixed).set("failed", t.failed).set("unsupported", t.unsupported);
}

void print_json(const std::vector<Case>& cases, const Tally& all, const std::map<std::string, Tally>& by_op) {
  Tree operators = Tree::table(), list = Tree::array();
  for (const auto& [op, t] : by_op) {
    Tree reasons = Tree::table();
    for (const auto& [reason, count] : t.reasons) reasons.set(reason, count);
    operators.set(op, tally_tree(t).set("reasons", std::move(reasons)));
  }
  for (const Case& c : cases)
    list.push(Tree(Tree::table()
                       .set("name", c.name)
                       .set("operator", c.result.op)
                       .set("outcome", outcome_name(c.result.outcome))
                       .set("fixed", c.result.fixed)
                       .set("reason", c.result.reason)));
  Tree out = tally_tree(all);
  out.set("operators", std::move(operators)).set("cases", std::move(list));
  std::printf("%s\n", to_json(out).c_str());
}

Result<void> run(Options o) {
  LATHE_TRY(o.run.session, o.session.options());
  LATHE_TRY(const std::vector<Case> cases, run_cases(o));
  Tally all;
  std::map<std::string, Tally> by_op;
  for (const Case& c : cases) {
    all.add(c.result);
    by_op[c.result.op].add(c.result);
  }
  if (o.json) print_json(cases, all, by_op);
  else print_text(cases, all, by_op);
  if (all.failed == 0) return {};
  return fail(Code::kInvalidArgument, std::to_string(all.failed) + " of " + std::to_string(all.total()) + " cases failed");
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("folder", o->folder, "a case (model.onnx beside test_data_set_0), or a folder with cases somewhere in it")
      .required();
  args.option("--match", o->match, "only cases whose name fits one of these patterns (* and ?)").type_name("PATTERN");
  args.flag("--list", o->list, "one line per case");
  args.option("--show-values", o->run.shown_values, "how many differing elements to print per output").show_default();
  args.option("--time-limit", o->run.time_limit, "seconds for one case").show_default().positive();
  args.flag("--in-process", o->in_process, "run cases in this process, for debuggers: a crash ends the run");
  args.flag("--json", o->json, "print JSON");
  o->session.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_conformance{"conformance", "run ONNX backend test cases",
                             "lathe conformance onnx/backend/test/data/node --match 'test_conv_*'", setup};

}  // namespace lathe::tools
