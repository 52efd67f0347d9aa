#include "runtime/host/model.h"

#include "runtime/host/mapped_file.h"
#include "runtime/host/meta.h"

namespace lathe {
namespace {

std::string both(const Status& s) { return " (needed " + std::to_string(s.needed) + ", got " + std::to_string(s.got) + ")"; }

// Names where META has as many as the plan needs; a list of another length belongs to something else and is left out.
void take_names(const Meta& meta, LoadedProgram* out) {
  const ProgramHeader& h = out->program.header();
  for (const PlanNames& p : meta.plans) {
    if (p.tag != h.target) continue;
    if (p.inputs.size() == h.input_count) out->input_names = p.inputs;
    if (p.outputs.size() == h.output_count) out->output_names = p.outputs;
    if (p.symbols.size() == h.symbol_count) out->symbol_names = p.symbols;
    if (p.steps.size() != h.step_count) return;
    for (const StepNames& s : p.steps) {
      out->step_names.push_back(s.name);
      out->step_ops.push_back(s.op);
    }
    return;
  }
}

}  // namespace

std::string describe_file_error(const Status& s) {
  switch (s.code) {
    case Code::kInvalidArgument: return "bytes are not on a 64-byte boundary";
    case Code::kVersion:
      return "made by a newer version: file format " + std::to_string(s.got) + ", this build reads " + std::to_string(s.needed);
    case Code::kUnsupported:
      return "section " + std::to_string(s.where) +
             " is required and of a kind that this build does not know: " + std::to_string(s.got);
    default: break;
  }
  if (s.needed == kFileMagic) return "not a lathe model file";
  return "file is damaged or truncated: section table entry " + std::to_string(s.where) + both(s);
}

std::string describe_program_error(const Status& s) {
  switch (s.code) {
    case Code::kVersion: return "plan was made by a newer version: record " + std::to_string(s.where) + both(s);
    case Code::kUnsupported:
      return "plan step " + std::to_string(s.where) + " has an operator that this build does not know: " + std::to_string(s.got);
    default: return "plan is damaged: record " + std::to_string(s.where) + both(s);
  }
}

Result<std::shared_ptr<const LoadedProgram>> load_program(Bytes file, std::shared_ptr<const void> owner) {
  FileView view;
  Status s = file_open(file, &view);
  if (!s.ok()) return fail(s.code, describe_file_error(s));
  const Bytes plan = view.find(SectionKind::kPlan);
  if (plan.data == nullptr) return fail(Code::kUnsupported, "file has no plan for hosts; `lathe compile` makes one");
  auto loaded = std::make_shared<LoadedProgram>();
  s = program_open(plan, view.find(SectionKind::kWeights), &loaded->program);
  if (!s.ok()) return fail(s.code, describe_program_error(s));
  if (const Bytes meta = view.find(SectionKind::kMeta); meta.data != nullptr) {
    LATHE_TRY(const Meta names, read_meta(meta));
    take_names(names, loaded.get());
  }
  loaded->owner = std::move(owner);
  return loaded;
}

Result<std::shared_ptr<const LoadedProgram>> load_program(const std::string& path) {
  LATHE_TRY(const auto file, MappedFile::open(path));
  auto loaded = load_program(file->bytes(), file);
  if (!loaded) return tl::unexpected<Error>(with_context(loaded.error(), path));
  return loaded;
}

}  // namespace lathe
