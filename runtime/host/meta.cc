#include "runtime/host/meta.h"

#include <flatbuffers/flatbuffers.h>

#include "runtime/host/meta_generated.h"

namespace lathe {
namespace {

std::string text(const flatbuffers::String* s) { return s == nullptr ? std::string() : s->str(); }

std::vector<std::string> texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* list) {
  std::vector<std::string> out;
  if (list == nullptr) return out;
  for (const auto* s : *list) out.push_back(text(s));
  return out;
}

PlanNames read_plan(const fbs::PlanNames& p) {
  PlanNames out;
  out.tag = p.tag();
  out.inputs = texts(p.inputs());
  out.outputs = texts(p.outputs());
  out.symbols = texts(p.symbols());
  if (p.steps() != nullptr)
    for (const auto* s : *p.steps()) out.steps.push_back({text(s->name()), text(s->op()), s->param_bytes()});
  return out;
}

}  // namespace

std::vector<uint8_t> write_meta(const Meta& meta) {
  flatbuffers::FlatBufferBuilder b;
  std::vector<flatbuffers::Offset<fbs::Entry>> entries;
  for (const auto& [key, value] : meta.entries) entries.push_back(fbs::CreateEntryDirect(b, key.c_str(), value.c_str()));
  std::vector<flatbuffers::Offset<fbs::PlanNames>> plans;
  for (const PlanNames& p : meta.plans) {
    std::vector<flatbuffers::Offset<fbs::Step>> steps;
    for (const StepNames& s : p.steps) steps.push_back(fbs::CreateStepDirect(b, s.name.c_str(), s.op.c_str(), s.param_bytes));
    const auto inputs = b.CreateVectorOfStrings(p.inputs), outputs = b.CreateVectorOfStrings(p.outputs),
               symbols = b.CreateVectorOfStrings(p.symbols);
    plans.push_back(fbs::CreatePlanNames(b, p.tag, inputs, outputs, b.CreateVector(steps), symbols));
  }
  const auto entry_list = b.CreateVector(entries);
  const auto plan_list = b.CreateVector(plans);
  fbs::FinishMetaBuffer(b, fbs::CreateMeta(b, entry_list, plan_list));
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

Result<Meta> read_meta(Bytes section) {
  flatbuffers::Verifier verifier(section.data, section.size, /*max_depth=*/16, /*max_tables=*/1u << 24);
  if (section.data == nullptr || section.size < 8 || !fbs::VerifyMetaBuffer(verifier))
    return fail(Code::kCorrupt, "section meta is damaged");
  const fbs::Meta& m = *fbs::GetMeta(section.data);
  Meta out;
  if (m.entries() != nullptr)
    for (const auto* e : *m.entries()) out.entries[text(e->key())] = text(e->value());
  if (m.plans() != nullptr)
    for (const auto* p : *m.plans()) out.plans.push_back(read_plan(*p));
  return out;
}

}  // namespace lathe
