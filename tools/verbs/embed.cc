// lathe embed: a model as C++ source for firmware, with its arena's size and the kernels that it uses.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/atomic_file.h"
#include "base/json.h"
#include "graph/file/model_file.h"
#include "runtime/host/cpu.h"
#include "runtime/host/embed.h"
#include "tools/model.h"
#include "tools/runner.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model, folder, name = "model", kernels = "scalar";
  bool with_cases = false, json = false;
  ImportFlags import;
};

// The file's self-checks as sources, with outputs as a scalar host session gives them.
Result<std::vector<EmbedCase>> embed_cases_of(const std::string& path) {
  LATHE_TRY(const ModelFile file, read_model(path));
  std::vector<EmbedCase> cases;
  for (const SelfCheck& check : file.tests) {
    EmbedCase c;
    for (const TestArray& a : check.inputs) c.inputs.push_back(a.data);
    for (const TestArray& a : check.outputs) c.outputs.push_back(a.data);
    cases.push_back(std::move(c));
  }
  if (cases.empty())
    return fail(Code::kInvalidArgument, path + ": has no self-checks (`lathe quantize` stores one unless its arrays are large)");
  return cases;
}

void print_text(const EmbeddedModel& m) {
  std::printf("flash: weights %s, plan %s; arena %s (lower bound %s)\noperators:", bytes_text(m.weight_bytes).c_str(),
              bytes_text(m.plan_bytes).c_str(), bytes_text(m.arena_bytes).c_str(), bytes_text(m.arena_lower_bound).c_str());
  for (const std::string& op : m.ops) std::printf(" %s", op.c_str());
  std::printf("\nkernels:\n");
  for (const std::string& k : m.kernels) std::printf("  %s\n", k.c_str());
}

void print_json(const EmbeddedModel& m) {
  Tree ops = Tree::array(), kernel_list = Tree::array(), out = Tree::table();
  for (const std::string& op : m.ops) ops.push(op);
  for (const std::string& k : m.kernels) kernel_list.push(k);
  out.set("weight_bytes", m.weight_bytes)
      .set("plan_bytes", m.plan_bytes)
      .set("arena_bytes", m.arena_bytes)
      .set("arena_lower_bound", m.arena_lower_bound);
  out.set("ops", std::move(ops)).set("kernels", std::move(kernel_list));
  std::printf("%s\n", to_json(out).c_str());
}

Result<void> run(const Options& o) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(o.folder, error)) return fail(Code::kIo, o.folder + ": is not a folder");
  LATHE_TRY(const HostModel model, load_host_model(o.model, o.import));
  EmbedOptions options;
  options.name = o.name;
  LATHE_TRY(options.isa, parse_isa(o.kernels));
  LATHE_TRY(const EmbeddedModel embedded, embed_program(*model.program, options));
  const std::string stem = (fs::path(o.folder) / o.name).string();
  std::string cases;
  if (o.with_cases) {
    LATHE_TRY(const auto list, embed_cases_of(o.model));
    cases = embed_cases(o.name, list);
  }
  LATHE_CHECK_OK(write_file_atomic(stem + ".h", embedded.header));
  LATHE_CHECK_OK(write_file_atomic(stem + ".cc", embedded.source));
  if (o.with_cases) LATHE_CHECK_OK(write_file_atomic(stem + "_cases.h", cases));
  if (o.json)
    print_json(embedded);
  else
    print_text(embedded);
  return {};
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("model", o->model, ".lathe file").required();
  args.option("-o,--output", o->folder, "folder for NAME.h and NAME.cc").required();
  args.option("--name", o->name, "identifier: names the files and the namespace").show_default();
  args.option("--kernels", o->kernels, "instruction set of the target: scalar, or for aarch64 neon or dotprod").show_default();
  args.flag("--with-cases", o->with_cases, "also NAME_cases.h: the file's self-checks, for a firmware test");
  args.flag("--json", o->json, "print JSON");
  o->import.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_embed{"embed", "write a model as C++ source for firmware", "lathe embed int8.lathe -o firmware/ --name model",
                       setup};

}  // namespace lathe::tools
