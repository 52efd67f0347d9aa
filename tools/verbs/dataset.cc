// lathe dataset: describes and checks data sets.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/atomic_file.h"
#include "base/json.h"
#include "data/dataset.h"
#include "data/tensor.h"
#include "tools/model.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string init, check, output;
  bool json = false;
};

std::string counts_text(const std::vector<uint64_t>& counts) {
  std::string s;
  for (const uint64_t c : counts) s += (s.empty() ? "" : " ") + std::to_string(c);
  return s;
}

void print_text(const DatasetReport& report) {
  Table splits({"split", "samples", "duplicates", "groups", "per class"});
  for (const SplitReport& s : report.splits) {
    std::string groups;
    for (const std::string& g : s.group_columns) groups += (groups.empty() ? "" : ", ") + g;
    splits.add({s.name, std::to_string(s.samples), std::to_string(s.duplicates), groups, counts_text(s.per_class)});
  }
  Table inputs({"input", "type", "per sample", "min", "max", "mean"});
  for (const InputReport& i : report.inputs) {
    char low[32], high[32], mean[32];
    std::snprintf(low, sizeof low, "%.5g", i.low);
    std::snprintf(high, sizeof high, "%.5g", i.high);
    std::snprintf(mean, sizeof mean, "%.5g", i.mean);
    inputs.add({i.name.empty() ? "(only one)" : i.name, dtype_name(i.dtype), dims_text(i.dims), low, high, mean});
  }
  std::printf("%s\n%s", splits.text().c_str(), inputs.text().c_str());
  for (const std::string& problem : report.problems) std::printf("problem: %s\n", problem.c_str());
}

void print_json(const DatasetReport& report) {
  Tree splits = Tree::table(), inputs = Tree::array(), problems = Tree::array();
  for (const SplitReport& s : report.splits) {
    Tree per_class = Tree::array();
    for (const uint64_t c : s.per_class) per_class.push(c);
    splits.set(
        s.name,
        Tree(Tree::table().set("samples", s.samples).set("duplicates", s.duplicates).set("per_class", std::move(per_class))));
  }
  for (const InputReport& i : report.inputs)
    inputs.push(Tree(Tree::table()
                         .set("name", i.name)
                         .set("dtype", dtype_name(i.dtype))
                         .set("dims", dims_text(i.dims))
                         .set("min", i.low)
                         .set("max", i.high)
                         .set("mean", i.mean)
                         .set("non_finite", i.non_finite)));
  for (const std::string& p : report.problems) problems.push(p);
  std::printf(
      "%s\n",
      to_json(
          Tree::table().set("splits", std::move(splits)).set("inputs", std::move(inputs)).set("problems", std::move(problems)))
          .c_str());
}

Result<void> check(const Options& o) {
  LATHE_TRY(const DatasetReport report, dataset_check(o.check));
  if (o.json)
    print_json(report);
  else
    print_text(report);
  if (report.problems.empty()) return {};
  return fail(Code::kInvalidArgument,
              o.check + ": " + std::to_string(report.problems.size()) + " problems, the first: " + report.problems[0]);
}

Result<void> init(const Options& o) {
  if (o.output.empty()) {
    LATHE_TRY(const std::string text, dataset_init(o.init, std::filesystem::current_path().string()));
    std::printf("%s", text.c_str());
    return {};
  }
  LATHE_CHECK_OK(check_writable(o.output));
  std::error_code error;
  if (std::filesystem::exists(o.output, error))
    return fail(Code::kIo, o.output + ": exists already; remove it or choose another name");
  const std::string folder = std::filesystem::absolute(o.output).parent_path().string();
  LATHE_TRY(const std::string text, dataset_init(o.init, folder));
  LATHE_CHECK_OK(write_file_atomic(o.output, text));
  std::printf("wrote %s; read it, then `lathe dataset check %s`\n", o.output.c_str(), o.output.c_str());
  return {};
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.require_command();
  Arguments init_app =
      args.command("init", "guess format, shapes and splits of a file or folder and write a commented description");
  init_app.option("path", o->init, "file or folder").required();
  init_app.option("-o,--output", o->output, "TOML file to write; without it the text is printed");
  Arguments check_app = args.command("check", "load a data set whole and print what is in it");
  check_app.option("description", o->check, "TOML file").required();
  check_app.flag("--json", o->json, "print JSON");
  return [o] { return o->check.empty() ? init(*o) : check(*o); };
}

}  // namespace

const Verb kVerb_dataset{"dataset", "describe and check data sets",
                         "lathe dataset init folder/ -o set.toml && lathe dataset check set.toml", setup};

}  // namespace lathe::tools
