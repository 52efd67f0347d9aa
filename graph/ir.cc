#include "graph/ir.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "graph/op_def.h"

namespace lathe {
namespace {

constexpr size_t kMaxContents = 64;

// The elements of a small integer constant as dims; nothing for other types, and where bytes and type disagree (verify() reports
// that).
template <class T>
std::optional<std::vector<Dim>> read_contents(DimTable& dims, size_t elems, const Constant& c) {
  if (c.bytes.size() != elems * sizeof(T)) return std::nullopt;
  std::vector<Dim> out(elems);
  for (size_t i = 0; i < elems; ++i) {
    T v;
    std::memcpy(&v, c.bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = dims.constant(v);
  }
  return out;
}

std::optional<std::vector<Dim>> constant_contents(DimTable& dims, const TensorType& type, const Constant& c) {
  if (type.dtype != DType::kS64 && type.dtype != DType::kS32 && type.dtype != DType::kBool) return std::nullopt;
  size_t elems = 1;
  for (const Dim d : type.dims) {
    const auto v = dims.value(d);
    if (!v || *v < 0 || *v > static_cast<int64_t>(kMaxContents)) return std::nullopt;
    elems *= static_cast<size_t>(*v);
    if (elems > kMaxContents) return std::nullopt;
  }
  if (type.dtype == DType::kBool) return read_contents<uint8_t>(dims, elems, c);
  return type.dtype == DType::kS64 ? read_contents<int64_t>(dims, elems, c) : read_contents<int32_t>(dims, elems, c);
}

}  // namespace

Attrs default_attrs(Op op) {
  switch (op) {
#define LATHE_OP(name, number, attrs) \
  case Op::k##name: return attrs{};
#include "runtime/ops.def"
#undef LATHE_OP
  }
  return NoAttrs{};
}

Constant Constant::copy(std::span<const std::byte> bytes) {
  constexpr std::align_val_t kAlign{64};
  auto* memory = static_cast<std::byte*>(::operator new(std::max<size_t>(bytes.size(), 1), kAlign));
  if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
  Constant c;
  c.owner = std::shared_ptr<const void>(memory, [](const void* p) { ::operator delete(const_cast<void*>(p), kAlign); });
  c.bytes = {memory, bytes.size()};
  return c;
}

ValueId Graph::add_value(Value v) {
  const auto id = static_cast<ValueId>(values_.size());
  value_names_.try_emplace(v.name, id);
  values_.push_back(std::move(v));
  return id;
}

ValueId Graph::add_input(std::string name, TensorType type, std::optional<Quant> quant) {
  const ValueId id =
      add_value({.kind = ValueKind::kInput, .type = std::move(type), .quant = std::move(quant), .name = std::move(name)});
  inputs_.push_back(id);
  return id;
}

ValueId Graph::add_constant(std::string name, TensorType type, Constant bytes, std::optional<Quant> quant) {
  Value v{.kind = ValueKind::kConstant,
          .type = std::move(type),
          .quant = std::move(quant),
          .constant = std::move(bytes),
          .name = std::move(name)};
  if (!v.quant) v.contents = constant_contents(*dims_, v.type, v.constant);
  return add_value(std::move(v));
}

ValueId Graph::add_variable(std::string name, TensorType type, Constant initial) {
  return add_value(
      {.kind = ValueKind::kVariable, .type = std::move(type), .constant = std::move(initial), .name = std::move(name)});
}

Result<NodeId> Graph::make_node(Node node, std::vector<std::string> output_names,
                                std::span<const std::optional<Quant>> output_quants) {
  auto types = infer_node(*this, node, output_quants);
  if (!types) {
    const char* op = op_name(node.op);
    return tl::unexpected(with_context(std::move(types.error()), std::string(op ? op : "op") + " '" + node.name + "'"));
  }
  const auto id = static_cast<NodeId>(nodes_.size());
  output_names.resize(types->size());
  for (size_t i = 0; i < types->size(); ++i) {
    Inferred& t = (*types)[i];
    std::string name = std::move(output_names[i]);
    if (name.empty()) name = fresh_value_name(types->size() == 1 ? node.name : node.name + ":" + std::to_string(i));
    node.outputs.push_back(add_value({.type = std::move(t.type),
                                      .quant = std::move(t.quant),
                                      .producer = id,
                                      .contents = std::move(t.contents),
                                      .name = std::move(name)}));
  }
  node_names_.try_emplace(node.name, id);
  nodes_.push_back(std::move(node));
  return id;
}

Result<NodeId> Graph::add_node(Op op, Attrs attrs, std::vector<ValueId> inputs, std::string name,
                               std::vector<std::string> output_names, std::vector<std::optional<Quant>> output_quants,
                               std::vector<std::shared_ptr<const Graph>> regions) {
  Node node{
      .op = op, .attrs = std::move(attrs), .inputs = std::move(inputs), .regions = std::move(regions), .name = std::move(name)};
  LATHE_TRY(const NodeId id, make_node(std::move(node), std::move(output_names), output_quants));
  order_.push_back(id);
  return id;
}

std::vector<NodeId> Graph::consumers(ValueId v) const {
  std::vector<NodeId> out;
  for (const NodeId n : order_)
    if (std::find(nodes_[n].inputs.begin(), nodes_[n].inputs.end(), v) != nodes_[n].inputs.end()) out.push_back(n);
  return out;
}

bool Graph::is_output(ValueId v) const { return std::find(outputs_.begin(), outputs_.end(), v) != outputs_.end(); }

ValueId Graph::find_value(const std::string& name) const {
  const auto it = value_names_.find(name);
  return it == value_names_.end() ? kNoId : it->second;
}

std::string Graph::fresh_value_name(std::string stem) const {
  if (!value_names_.contains(stem)) return stem;
  for (int i = 1;; ++i)
    if (std::string name = stem + "." + std::to_string(i); !value_names_.contains(name)) return name;
}

std::string Graph::fresh_name(std::string stem) const {
  const auto used = [this](const std::string& n) { return value_names_.contains(n) || node_names_.contains(n); };
  if (!used(stem)) return stem;
  for (int i = 1;; ++i)
    if (std::string name = stem + "." + std::to_string(i); !used(name)) return name;
}

}  // namespace lathe
