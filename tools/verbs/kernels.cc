// lathe kernels: every kernel of this build, and which of them this machine can run.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "kernels/kernel.h"
#include "runtime/host/cpu.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

std::string needs_text(kernels::IsaSet needs) {
  for (const auto& level : kernels::kIsaLevels)
    if (kernels::covers(level.set, needs)) return level.name;
  return "?";
}

const char* state(const kernels::Kernel& kernel, kernels::IsaSet machine) {
  if (kernel.fn == nullptr) return "not in this build";
  return kernels::covers(machine, kernel.needs) ? "yes" : "no";
}

Result<void> list(bool as_json) {
  LATHE_TRY(const kernels::IsaSet machine, machine_isa());
  Table table({"family", "kernel", "needs", "8-bit storage", "runs here"});
  Tree json = Tree::array();
  for (const kernels::Kernel& k : kernels::all_kernels()) {
    const char* storage = k.storage == kernels::Storage::kU8 ? "u8" : "s8";
    table.add({kernels::family_name(k.family), k.name, needs_text(k.needs), storage, state(k, machine)});
    Tree row = Tree::table();
    row.set("family", kernels::family_name(k.family))
        .set("name", k.name)
        .set("needs", needs_text(k.needs))
        .set("storage", storage);
    row.set("runs_here", std::string(state(k, machine)) == "yes");
    json.push(std::move(row));
  }
  if (as_json)
    std::printf("%s\n", to_json(Tree::table().set("isa", isa_text(machine)).set("kernels", std::move(json))).c_str());
  else
    std::printf("this machine: %s\n%s", isa_text(machine), table.text().c_str());
  return {};
}

Action setup(CLI::App& app) {
  auto as_json = std::make_shared<bool>(false);
  app.add_flag("--json", *as_json, "print JSON");
  return [as_json] { return list(*as_json); };
}

}  // namespace

const Verb kVerb_kernels{"kernels", "list the kernels of this build and what this machine can run", "lathe kernels --json",
                         setup};

}  // namespace lathe::tools
