#include "runtime/host/embed.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include "runtime/host/bind_error.h"
#include "runtime/host/plan_blocks.h"
#include "runtime/plan/bind.h"

namespace lathe {
namespace {

// Firmware reads whole words, not vectors: constants and buffers lie on 16 bytes, with as many readable behind the last one.
constexpr uint32_t kAlign = 16;

std::string number(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", v);
  return text;
}

bool is_identifier(const std::string& s) {
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0]))) return false;
  return std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// An array of 32-bit words: half the text of bytes, and aligned by its type. Bytes past the end are 0.
void write_words(std::string& out, const std::string& name, const uint8_t* bytes, size_t n, size_t at_least_bytes = 4) {
  const size_t words = std::max((n + 3) / 4, (at_least_bytes + 3) / 4);
  out += "alignas(16) constexpr uint32_t " + name + "[" + std::to_string(words) + "] = {";
  char text[16];
  for (size_t i = 0; i < words; ++i) {
    uint32_t word = 0;
    if (i * 4 < n) std::memcpy(&word, bytes + i * 4, std::min<size_t>(4, n - i * 4));
    std::snprintf(text, sizeof text, "%s0x%x,", i % 16 == 0 ? "\n  " : "", word);
    out += text;
  }
  out += "\n};\n";
}

class Embedder {
 public:
  Embedder(const LoadedProgram& loaded, const EmbedOptions& options) : loaded_(loaded), p_(loaded.program), options_(options) {}

  Result<EmbeddedModel> run() {
    if (!is_identifier(options_.name)) return fail(Code::kInvalidArgument, "name '" + options_.name + "' is not an identifier");
    LATHE_CHECK_OK(bind_plan());
    gather_weights();
    write_header();
    write_source();
    out_.arena_bytes = memory_bytes();
    out_.arena_lower_bound = plan().arena_lower_bound;
    return std::move(out_);
  }

 private:
  const BoundPlan& plan() const { return binding_.plan; }
  // Variables lie behind the arena in one block.
  uint32_t variables_at() const { return (plan().arena_bytes + kAlign - 1) / kAlign * kAlign; }
  uint32_t memory_bytes() const { return plan().variable_count == 0 ? plan().arena_bytes : variables_at() + plan().variable_bytes; }

  Result<void> bind_plan() {
    std::vector<Shape> shapes = options_.shapes;
    if (shapes.empty()) shapes = default_shapes();
    if (shapes.size() != p_.header().input_count)
      return fail(Code::kInvalidArgument, "model has " + std::to_string(p_.header().input_count) + " inputs, got shapes for " + std::to_string(shapes.size()));
    BoundDims dims;
    Status s = evaluate_dims(p_, shapes.data(), blocks_.memory(), &dims);
    if (!s.ok()) return fail(s.code, shape_error(loaded_, shapes, s));
    BindOptions options;
    options.isa = options_.isa;
    options.storage = kernels::Storage::kS8;
    options.table = full_exec_table();
    options.index = &exec_index;
    options.align = kAlign;
    options.tail = kAlign;
    options.external_ports = false;
    s = bind(p_, dims, options, blocks_.memory(), &binding_);
    if (!s.ok()) return fail(s.code, step_error(loaded_, s));
    return {};
  }

  std::vector<Shape> default_shapes() const {
    std::vector<Shape> shapes(p_.header().input_count);
    for (uint32_t t = 0; t < p_.tensor_count(); ++t) {
      const ProgramTensor& x = p_.tensor(t);
      if (x.kind != TensorKind::kInput) continue;
      shapes[x.port].rank = x.rank;
      for (uint32_t i = 0; i < x.rank; ++i) {
        const ProgramDim& d = p_.dim(x.dims[i]);
        shapes[x.port].dims[i] = d.op == DimOp::kConst ? d.a : 1;
      }
    }
    return shapes;
  }

  bool unread(uint32_t step, uint32_t operand) const { return operand < 32 && (binding_.unread[step] >> operand & 1) != 0; }

  // Only constants that some step reads go to flash, each once.
  void gather_weights() {
    tensors_.assign(plan().tensors, plan().tensors + plan().tensor_count);
    std::map<uint32_t, uint32_t> moved;  // offset in WEIGHTS -> here
    const auto take = [&](uint32_t from, uint32_t bytes) {
      const auto [it, fresh] = moved.try_emplace(from, static_cast<uint32_t>(weights_.size()));
      if (fresh) {
        const uint8_t* p = p_.weights().data + from;
        weights_.insert(weights_.end(), p, p + bytes);
        weights_.resize((weights_.size() + kAlign - 1) / kAlign * kAlign);
      }
      return it->second;
    };
    std::set<uint32_t> read;
    for (uint32_t i = 0; i < plan().step_count; ++i) {
      const ProgramStep& s = p_.step(i);
      for (uint32_t k = 0; k < s.n_in; ++k)
        if (const uint32_t t = p_.operand(s, k); t != kNoTensor && !unread(i, k)) read.insert(t);
    }
    for (uint32_t t = 0; t < plan().tensor_count; ++t) {
      if (static_cast<Region>(tensors_[t].region) != Region::kWeights) continue;
      if (read.count(t) == 0) {
        tensors_[t] = {};
      } else if (p_.tensor(t).kind == TensorKind::kConstant) {
        tensors_[t].offset = take(tensors_[t].offset, p_.tensor(t).stored_bytes);
      }
    }
    // Aliases of constants follow the constants that they are views of.
    for (uint32_t t = 0; t < plan().tensor_count; ++t)
      if (static_cast<Region>(tensors_[t].region) == Region::kWeights && p_.tensor(t).kind != TensorKind::kConstant)
        tensors_[t].offset = take(tensors_[t].offset, binding_.dims.shapes[t].elems() * dtype_bytes(p_.tensor(t).dtype));
    variables_.assign(plan().variables, plan().variables + plan().variable_count);
    for (BoundVariable& v : variables_)
      if (v.source != kNoTensor) v.source = take(v.source, v.bytes);
    weights_.resize(weights_.size() + kAlign);
    out_.weight_bytes = static_cast<uint32_t>(weights_.size());
  }

  void write_ports(const char* name, const char* accessor, bool inputs) {
    const uint32_t count = inputs ? plan().input_count : plan().output_count;
    const std::vector<std::string>& names = inputs ? loaded_.input_names : loaded_.output_names;
    std::string& h = out_.header;
    h += "inline constexpr uint32_t k" + std::string(inputs ? "Input" : "Output") + "Count = " + std::to_string(count) + ";\n";
    h += "inline constexpr Port " + std::string(name) + "[] = {\n";
    for (uint32_t i = 0; i < count; ++i) {
      const BoundPort& port = plan().ports[inputs ? i : plan().input_count + i];
      const ProgramTensor& t = p_.tensor(port.tensor);
      const Shape& shape = binding_.dims.shapes[port.tensor];
      std::string dims;
      for (uint32_t k = 0; k < shape.rank; ++k) dims += (k == 0 ? "" : ", ") + std::to_string(shape.dims[k]);
      const bool quantized = (t.flags & kTensorHasQuant) != 0;
      h += "  {" + std::to_string(plan().tensors[port.tensor].offset) + ", " + std::to_string(port.bytes) + ", lathe::DType(" +
           std::to_string(static_cast<int>(t.dtype)) + "), {{" + dims + "}, " + std::to_string(shape.rank) + "}, " + (quantized ? number(t.quant.scale) : "0") + ", " +
           std::to_string(quantized ? t.quant.zero_point : 0) + "},  // ";
      for (const char c : i < names.size() ? names[i] : std::to_string(i)) h += std::isprint(static_cast<unsigned char>(c)) && c != '\\' ? c : '?';
      h += "\n";
    }
    h += count == 0 ? "  {},\n};\n" : "};\n";
    h += "inline void* " + std::string(accessor) + "(uint8_t* arena, uint32_t i = 0) { return arena + " + name + "[i].offset; }\n\n";
  }

  void write_header() {
    std::string& h = out_.header;
    const std::string& n = options_.name;
    h = "// Generated by `lathe embed`. Do not edit.\n"
        "//\n"
        "//   alignas(16) static uint8_t arena[" + n + "::kArenaBytes];\n"
        "//   " + n + "::reset(arena);                       // once: state of the model\n"
        "//   memcpy(" + n + "::input(arena), image, " + n + "::kInputs[0].bytes);\n"
        "//   " + n + "::run(arena);\n"
        "//   memcpy(scores, " + n + "::output(arena), " + n + "::kOutputs[0].bytes);\n"
        "//\n"
        "// Inputs must be written before every run: the run takes their memory for other things. Several arenas may run on several threads.\n"
        "#pragma once\n#include <stdint.h>\n\n#include \"lathe/dtype.h\"\n#include \"lathe/shape.h\"\n\nnamespace " + n + " {\n\n"
        "// Where an input or output lies in the arena. scale 0: not quantized; else real = (q - zero_point) * scale.\n"
        "struct Port {\n  uint32_t offset, bytes;\n  lathe::DType dtype;\n  lathe::Shape shape;\n  float scale;\n  int32_t zero_point;\n};\n\n"
        "inline constexpr uint32_t kArenaBytes = " + std::to_string(std::max(memory_bytes(), 1u)) + ";\n"
        "inline constexpr uint32_t kArenaLowerBound = " + std::to_string(plan().arena_lower_bound) + ";\n"
        "inline constexpr uint32_t kWeightBytes = " + std::to_string(weights_.size()) + ";\n";
    write_ports("kInputs", "input", true);
    write_ports("kOutputs", "output", false);
    h += "void reset(uint8_t* arena);\nvoid run(uint8_t* arena);\n\n}  // namespace " + n + "\n";
  }

  // Position in a list of distinct names, which grows as needed.
  static uint32_t intern(std::vector<std::string>& list, const std::string& s) {
    const auto it = std::find(list.begin(), list.end(), s);
    if (it != list.end()) return static_cast<uint32_t>(it - list.begin());
    list.push_back(s);
    return static_cast<uint32_t>(list.size() - 1);
  }

  void write_steps(std::string& s) {
    s += "constexpr lathe::BoundStep kSteps[] = {\n";
    for (uint32_t i = 0; i < plan().step_count; ++i) {
      const BoundStep& b = plan().steps[i];
      const uint32_t exec = intern(out_.ops, op_name(static_cast<Op>(p_.step(i).op)));
      s += "  {" + std::to_string(exec) + ", " + std::to_string(b.n_in) + ", " + std::to_string(b.operands) + ", " + std::to_string(b.params) + ", " +
           std::to_string(b.kernel) + ", " + std::to_string(b.scratch) + "},\n";
    }
    s += plan().step_count == 0 ? "  {},\n};\n" : "};\n";
  }

  void write_operands(std::string& s) {
    std::vector<uint32_t> operands(plan().operands, plan().operands + binding_.operand_count);
    for (uint32_t i = 0; i < plan().step_count; ++i) {
      const ProgramStep& step = p_.step(i);
      for (uint32_t k = 0; k < step.n_in; ++k)
        if (unread(i, k)) operands[step.operands + k] = kNoTensor;
    }
    write_words(s, "kOperands", reinterpret_cast<const uint8_t*>(operands.data()), operands.size() * 4);
    s += "constexpr lathe::BoundTensor kTensors[] = {";
    for (size_t i = 0; i < tensors_.size(); ++i)
      s += (i % 12 == 0 ? "\n  {" : " {") + std::to_string(tensors_[i].region) + ", " + std::to_string(tensors_[i].offset) + "},";
    s += tensors_.empty() ? "{}};\n" : "\n};\n";
    s += "constexpr lathe::BoundVariable kVariables[] = {";
    for (const BoundVariable& v : variables_)
      s += "{" + std::to_string(v.offset) + ", " + std::to_string(v.bytes) + ", " + std::to_string(v.source) + "u, lathe::PortMode(" +
           std::to_string(static_cast<uint32_t>(v.mode)) + ")}, ";
    s += variables_.empty() ? "{}};\n" : "};\n";
    out_.plan_bytes = static_cast<uint32_t>(operands.size() * 4 + tensors_.size() * sizeof(BoundTensor) + plan().step_count * sizeof(BoundStep) + binding_.params_bytes);
  }

  void write_kernels(std::string& s) {
    s += "const lathe::kernels::AnyFn kKernels[] = {\n";
    for (uint32_t k = 0; k < binding_.kernel_count; ++k) {
      intern(out_.kernels, binding_.kernels[k]->name);
      s += "  reinterpret_cast<lathe::kernels::AnyFn>(lathe::kernels::" + std::string(binding_.kernels[k]->name) + "),\n";
    }
    s += binding_.kernel_count == 0 ? "  nullptr,\n};\n" : "};\n";
    s += "// Steps run only: preparing them was done on the host.\nconst lathe::ExecEntry kExec[] = {\n";
    for (const std::string& op : out_.ops) s += "  {nullptr, lathe::run_" + op + "},\n";
    s += out_.ops.empty() ? "  {},\n};\n" : "};\n";
  }

  // A kernel's declaration: one function type per family, over <Family>Args.
  std::string declarations() const {
    std::set<std::string> lines;
    for (uint32_t k = 0; k < binding_.kernel_count; ++k) {
      const std::string args = std::string(kernels::family_name(binding_.kernels[k]->family)) + "Args";
      lines.insert("struct " + args + ";\nvoid " + binding_.kernels[k]->name + "(const " + args + "&);\n");
    }
    std::string text;
    for (const std::string& line : lines) text += line;
    return text;
  }

  void write_source() {
    std::string& s = out_.source;
    const std::string& n = options_.name;
    s = "// Generated by `lathe embed`. Do not edit.\n#include \"" + n + ".h\"\n\n#include \"runtime/executor.h\"\n\nnamespace lathe::kernels {\n" + declarations() +
        "}  // namespace lathe::kernels\n\nnamespace " + n + " {\nnamespace {\n\n";
    write_words(s, "kWeights", weights_.data(), weights_.size());
    write_words(s, "kParams", plan().params, binding_.params_bytes);
    write_operands(s);
    write_steps(s);
    write_kernels(s);
    // Pointers into the tables above: initialized when this is compiled, so it lies in flash too.
    s += "\nlathe::BoundPlan make_plan() {\n  lathe::BoundPlan p;\n  p.tensors = kTensors;\n  p.steps = kSteps;\n  p.operands = kOperands;\n"
         "  p.params = reinterpret_cast<const uint8_t*>(kParams);\n  p.kernels = kKernels;\n  p.variables = kVariables;\n"
         "  p.step_count = " + std::to_string(plan().step_count) + ";\n  p.variable_count = " + std::to_string(plan().variable_count) + ";\n  return p;\n}\n\n"
         "lathe::RunMemory memory(uint8_t* arena) { return {arena, reinterpret_cast<const uint8_t*>(kWeights), arena + " + std::to_string(variables_at()) + ", nullptr}; }\n\n"
         "}  // namespace\n\n"
         "void reset(uint8_t* arena) { lathe::reset_variables(make_plan(), memory(arena)); }\n\n"
         "void run(uint8_t* arena) {\n  const lathe::BoundPlan plan = make_plan();\n"
         "  lathe::run_steps(plan, kExec, memory(arena), lathe::Parallel{}, nullptr, 0, plan.step_count);\n}\n\n}  // namespace " + n + "\n";
  }

  const LoadedProgram& loaded_;
  const Program& p_;
  const EmbedOptions& options_;
  PlanBlocks blocks_;
  Binding binding_;
  std::vector<BoundTensor> tensors_;
  std::vector<BoundVariable> variables_;
  std::vector<uint8_t> weights_;
  EmbeddedModel out_;
};

}  // namespace

Result<EmbeddedModel> embed_program(const LoadedProgram& loaded, const EmbedOptions& options) { return Embedder(loaded, options).run(); }

std::string embed_cases(const std::string& name, const std::vector<EmbedCase>& cases) {
  std::string s = "// Generated. Inputs for the model of the same name and the outputs that the host gives for them.\n#pragma once\n#include <stdint.h>\n\nnamespace " + name +
                  "_cases {\n\nstruct Array {\n  const uint32_t* words;\n  uint32_t bytes;\n};\n\n";
  std::string inputs, outputs;
  for (size_t c = 0; c < cases.size(); ++c)
    for (const bool in : {true, false}) {
      const auto& arrays = in ? cases[c].inputs : cases[c].outputs;
      std::string row;
      for (size_t i = 0; i < arrays.size(); ++i) {
        const std::string id = (in ? "kInput" : "kOutput") + std::to_string(c) + "_" + std::to_string(i);
        write_words(s, id, arrays[i].data(), arrays[i].size());
        row += "{" + id + ", " + std::to_string(arrays[i].size()) + "}, ";
      }
      (in ? inputs : outputs) += "  " + row + "\n";
    }
  s += "\n// Case after case, port after port.\ninline constexpr uint32_t kCount = " + std::to_string(cases.size()) + ";\ninline constexpr Array kInputs[] = {\n" + inputs +
       "};\ninline constexpr Array kOutputs[] = {\n" + outputs + "};\n\n}  // namespace " + name + "_cases\n";
  return s;
}

}  // namespace lathe
