// lathe operators: docs/operators.md, written from the op table and the importers' lists.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>

#include "graph/grad/gradient.h"
#include "graph/import/onnx/onnx_fields.h"
#include "graph/op_def.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct ImportedOp {
  const char* name;
  int64_t since;  // TFLite: the operator's number in files
};
struct Reason {
  const char *name, *reason;
};

constexpr ImportedOp kOnnxOps[] = {
#define ONNX_OP(name, since, min_inputs, max_inputs, function) {#name, since},
#include "graph/import/onnx/ops.inc"
};
constexpr ImportedOp kPreviewOps[] = {
#include "graph/import/onnx/preview_ops.inc"
};
#if __has_include("graph/import/onnx/ms_ops.inc")
constexpr ImportedOp kMicrosoftOps[] = {
#include "graph/import/onnx/ms_ops.inc"
};
#endif
#undef ONNX_OP
#if __has_include("graph/import/tflite/ops.inc")
constexpr ImportedOp kTfliteOps[] = {
#define TFLITE_OP(name, number, min_inputs, max_inputs, function) {#name, number},
#include "graph/import/tflite/ops.inc"
#undef TFLITE_OP
};
#endif
constexpr Reason kUnsupported[] = {
#define ONNX_UNSUPPORTED(name, reason) {#name, reason},
#include "graph/import/onnx/unsupported.inc"
#undef ONNX_UNSUPPORTED
};

constexpr DType kTypes[] = {
#define LATHE_DTYPE(name, number, bytes, text) DType::k##name,
#include "lathe/dtype.def"
#undef LATHE_DTYPE
};

// Operands of an op that is asked for its types. The letter is the element type: the one in question (a), f32 (f), bool (b), s64 (i)
// or s64 with known contents, dims 2, 3 (c). Each digit is a dim.
using Probe = std::vector<std::string_view>;
const Probe kProbes[] = {
    {"a23"},        {"a23", "a23"},        {"a23", "c2"},       {"a23", "i2"},        {"a23", "i3"},
    {"a23", "i23"}, {"a23", "i23", "a23"}, {"a23", "i21", "a23"}, {"a23", "c1"},      {"a23", "b2"},
    {"a23", "a32"}, {"b23", "a23", "a23"}, {"a", "a", "a"},     {"a", "a", "a", "c1"}, {"a23", "f"},
    {"f23", "f", "a"}, {"a1441", "a1111"}};

// Lists that must be as long as the rank, 2.
Attrs probe_attrs(Op op) {
  Attrs attrs = default_attrs(op);
  const auto fill = [&]<class T>(const std::string& name, T& member) {
    if constexpr (std::is_same_v<T, Ints>) {
      if (name == "repeats") member = Ints{2, {1, 1}};
      if (name == "perm") member = Ints{2, {1, 0}};
      if (name == "before" || name == "after") member = Ints{2, {0, 0}};
    }
  };
  std::visit([&](auto& a) { a.visit(a, fill); }, attrs);
  return attrs;
}

TensorType probe_type(DimTable& dims, std::string_view text, DType asked) {
  TensorType t;
  t.dtype = text[0] == 'a' ? asked : text[0] == 'f' ? DType::kF32 : text[0] == 'b' ? DType::kBool : DType::kS64;
  for (char digit : text.substr(1)) t.dims.push_back(dims.constant(digit - '0'));
  return t;
}

// Whether inference accepts such operands.
bool accepts(const OpDef& def, DType asked, const Probe& probe) {
  if (probe.size() < def.min_inputs || (def.max_inputs != kAnyInputs && probe.size() > def.max_inputs)) return false;
  DimTable dims;
  std::vector<TensorType> types;
  std::vector<std::vector<Dim>> contents;
  for (std::string_view text : probe) {
    types.push_back(probe_type(dims, text, asked));
    contents.push_back({dims.constant(2), dims.constant(3)});
    if (text == "c1") contents.back().pop_back();
  }
  const std::optional<Quant> none;
  std::vector<OperandView> views;
  for (size_t i = 0; i < types.size(); ++i)
    views.push_back({.type = &types[i], .quant = &none, .contents = probe[i][0] == 'c' ? &contents[i] : nullptr});
  const Attrs attrs = probe_attrs(def.op);
  const auto results = def.infer({dims, views, attrs});
  return results && std::none_of(results->begin(), results->end(), [](const Inferred& r) { return r.quantized; });
}

// Ops that no probe fits work on float32.
std::string types_of(const OpDef& def) {
  std::string s;
  for (DType t : kTypes) {
    const bool ok = std::any_of(std::begin(kProbes), std::end(kProbes), [&](const Probe& p) { return accepts(def, t, p); });
    if (ok) s += (s.empty() ? "" : " ") + std::string(dtype_name(t));
  }
  return s.empty() ? "f32" : s;
}

std::string quantized_form(const OpDef& def) {
  if (def.as_table) return "s8, as a table of 256";
  if (def.has_s8) return def.dynamic != nullptr ? "s8; weights alone: " + std::string(op_name(def.dynamic->op)) : "s8";
  if (def.quant_in[0].role == QuantRole::kInteger) return "integers";
  return "float";
}

const char* half_form(const OpDef& def) {
  switch (def.half) {
    case HalfForm::kNone: return "no";
    case HalfForm::kNative: return "yes";
    case HalfForm::kWidened: return "computed in f32";
  }
  return "";
}

void print_ops() {
  std::printf("## Operators of the intermediate representation\n\n");
  std::printf("| operator | number | element types | quantized form | half precision | gradient | channels |\n|---|---|---|---|---|---|---|\n");
#define LATHE_OP(name, number, attrs)                                                                    \
  std::printf("| %s | %d | %s | %s | %s | %s | %s |\n", #name, number, types_of(op_def(Op::k##name)).c_str(), \
              quantized_form(op_def(Op::k##name)).c_str(), half_form(op_def(Op::k##name)),                              \
              has_gradient(Op::k##name) ? "yes" : "no", op_def(Op::k##name).links != nullptr ? "yes" : "no");
#include "runtime/ops.def"
#undef LATHE_OP
}

std::vector<ImportedOp> sorted(std::span<const ImportedOp> list) {
  std::vector<ImportedOp> out(list.begin(), list.end());
  std::sort(out.begin(), out.end(), [](const ImportedOp& a, const ImportedOp& b) { return std::string_view(a.name) < b.name; });
  return out;
}

void print_onnx(const char* title, std::span<const ImportedOp> list, bool standard) {
  std::printf("\n## %s\n\n%s", title, standard ? "| operator | opsets |\n|---|---|\n" : "");
  for (const ImportedOp& op : sorted(list)) {
    const auto oldest = static_cast<long long>(std::max(op.since, onnx::kOldestOpset)),
               newest = static_cast<long long>(onnx::kNewestOpset);
    if (standard)
      std::printf("| %s | %lld to %lld |\n", op.name, oldest, newest);
    else
      std::printf("- %s\n", op.name);
  }
}

void print_unsupported() {
  std::printf("\n## ONNX operators that are not supported\n\n| operator | why |\n|---|---|\n");
  for (const Reason& r : kUnsupported) std::printf("| %s | %s |\n", r.name, r.reason);
}

Result<void> check_lists() {
  std::set<std::string> imported;
  for (const ImportedOp& op : kOnnxOps) imported.insert(op.name);
  for (const Reason& r : kUnsupported)
    if (imported.contains(r.name))
      return fail(Code::kInvalidArgument, std::string("operator ") + r.name + " is imported and listed as unsupported");
  return {};
}

Result<void> run() {
  LATHE_CHECK_OK(check_lists());
  std::printf(
      "# Operators\n\n"
      "Written by `lathe operators` from `runtime/ops.def`, the op table and the importers' lists; a test compares. An imported\n"
      "operator becomes one or several of the first table's; its types and quantized form are theirs. Element types are those "
      "that\n"
      "inference accepts for plain tensors; f16 and bf16 of files become f32. \"float\" as quantized form means that the "
      "operator runs\n"
      "on floats between a Dequantize and a Quantize. \"channels\" says whether channels of what it reads or makes can be pruned\n"
      "(`docs/compression.md`).\n\n");
  print_ops();
  print_onnx("ONNX, standard domain", kOnnxOps, true);
  print_onnx("ONNX, domain ai.onnx.preview", kPreviewOps, false);
#if __has_include("graph/import/onnx/ms_ops.inc")
  print_onnx("ONNX, domain com.microsoft", kMicrosoftOps, false);
#endif
#if __has_include("graph/import/tflite/ops.inc")
  print_onnx("TFLite", kTfliteOps, false);
#endif
  print_unsupported();
  return {};
}

Action setup(Arguments&) {
  return [] { return run(); };
}

}  // namespace

const Verb kVerb_operators{"operators", "print the table of operators (docs/operators.md)", "lathe operators > docs/operators.md",
                           setup};

}  // namespace lathe::tools
