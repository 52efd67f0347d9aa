// Reading GRAPH. The FlatBuffers verifier has seen the buffer before anything is read; every index, count and size in it is
// checked here, and the graph's own builders and verify() check the rest.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "graph/file/graph_section.h"
#include "graph/file/model_generated.h"
#include "graph/file/stored_constant.h"

namespace lathe {
namespace {

constexpr uint32_t kMaxTables = 1u << 22;

tl::unexpected<Error> corrupt(const std::string& what) { return fail(Code::kCorrupt, "section graph: " + what); }

std::string text(const flatbuffers::String* s) { return s == nullptr ? std::string() : s->str(); }

// Elements of a FlatBuffers vector that may be missing.
template <class V> uint32_t count(const V* v) { return v == nullptr ? 0 : v->size(); }

Result<DType> dtype_of(uint8_t number) {
  const auto t = static_cast<DType>(number);
  if (dtype_bytes(t) == 0) return fail(Code::kVersion, "section graph: element type " + std::to_string(number) + " is unknown");
  return t;
}

Result<std::optional<Quant>> quant_of(const fbs::Quant* q) {
  std::optional<Quant> out;
  if (q == nullptr) return out;
  out.emplace();
  for (uint32_t i = 0; i < count(q->scales()); ++i) out->scales.push_back(q->scales()->Get(i));
  for (uint32_t i = 0; i < count(q->zero_points()); ++i) out->zero_points.push_back(q->zero_points()->Get(i));
  if (out->zero_points.empty()) out->zero_points.resize(out->scales.size(), 0);
  if (out->zero_points.size() != out->scales.size()) return corrupt("zero points and scales differ in number");
  out->axis = q->axis();
  out->qmin = q->qmin();
  out->qmax = q->qmax();
  return out;
}

// Attribute members as every infer function may rely on them.
struct MemberCheck {
  bool ok = true;
  void operator()(const char*, const Ints& v) { ok = ok && v.count >= 0 && v.count <= static_cast<int32_t>(kMaxRank); }
  void operator()(const char*, float v) { ok = ok && !std::isnan(v); }
  void operator()(const char*, int32_t) {}
  template <size_t N> void operator()(const char*, const int32_t (&)[N]) {}
};

Result<Attrs> attrs_of(Op op, const flatbuffers::Vector<uint8_t>* bytes) {
  Attrs attrs = default_attrs(op);
  if (count(bytes) > op_attr_bytes(op))
    return fail(Code::kVersion, std::string("section graph: attributes of ") + op_name(op) + " are newer than this build");
  const bool ok = std::visit(
      [&]<class A>(A& a) {
        if (count(bytes) > 0) std::memcpy(static_cast<void*>(&a), bytes->data(), bytes->size());
        MemberCheck check;
        A::visit(a, check);
        return check.ok;
      },
      attrs);
  if (!ok) return corrupt(std::string("attributes of ") + op_name(op) + " are damaged");
  return attrs;
}

class GraphReader {
 public:
  GraphReader(const fbs::Graph& in, Bytes weights, const std::shared_ptr<const void>& owner)
      : in_(in), weights_(weights), owner_(owner) {}

  Result<Graph> run() {
    LATHE_CHECK_OK(read_dims());
    for (uint32_t i = 0; i < count(in_.inputs()); ++i) {
      LATHE_CHECK_OK(read_input(*in_.inputs()->Get(i)));
    }
    for (uint32_t i = 0; i < count(in_.constants()); ++i) {
      LATHE_CHECK_OK(read_stored(*in_.constants()->Get(i), ValueKind::kConstant));
    }
    for (uint32_t i = 0; i < count(in_.variables()); ++i) {
      LATHE_CHECK_OK(read_stored(*in_.variables()->Get(i), ValueKind::kVariable));
    }
    for (uint32_t i = 0; i < count(in_.nodes()); ++i) {
      LATHE_CHECK_OK(read_node(*in_.nodes()->Get(i)));
    }
    for (uint32_t i = 0; i < count(in_.outputs()); ++i) {
      const uint32_t v = in_.outputs()->Get(i);
      if (v >= values_.size())
        return corrupt("an output has number " + std::to_string(v) + " of " + std::to_string(values_.size()) + " values");
      graph_.add_output(values_[v]);
    }
    LATHE_CHECK_OK(verify(graph_));
    return std::move(graph_);
  }

 private:
  Result<void> read_dims() {
    // The verifier checks where a vector begins, not whether its structs, which hold 64-bit numbers, are aligned.
    if (in_.dims() != nullptr && reinterpret_cast<uintptr_t>(in_.dims()->Data()) % alignof(fbs::DimRecord) != 0)
      return corrupt("the dim records are not aligned");
    for (uint32_t i = 0; i < count(in_.dims()); ++i) {
      const fbs::DimRecord& r = *in_.dims()->Get(i);
      LATHE_TRY(const Dim d, dim_of(static_cast<DimOp>(r.op()), r.a(), r.b()));
      if (!d.valid()) return corrupt("dim record " + std::to_string(i) + " has no value");
      dims_.push_back(d);
    }
    return {};
  }

  Result<Dim> dim_of(DimOp op, int64_t a, int64_t b) {
    DimTable& t = graph_.dims();
    if (op == DimOp::kConst) return t.constant(a);
    if (op == DimOp::kSymbol) {
      if (a < 0 || a >= count(in_.symbols()))
        return corrupt("symbol " + std::to_string(a) + " of " + std::to_string(count(in_.symbols())));
      return t.symbol(text(in_.symbols()->Get(static_cast<uint32_t>(a))));
    }
    const auto size = static_cast<int64_t>(dims_.size());
    if (a < 0 || b < 0 || a >= size || b >= size) return corrupt("a dim record refers forward");
    const Dim x = dims_[static_cast<size_t>(a)], y = dims_[static_cast<size_t>(b)];
    switch (op) {
      case DimOp::kAdd: return t.add(x, y);
      case DimOp::kSub: return t.sub(x, y);
      case DimOp::kMul: return t.mul(x, y);
      case DimOp::kFloorDiv: return t.floordiv(x, y);
      case DimOp::kCeilDiv: return t.ceildiv(x, y);
      case DimOp::kMin: return t.min(x, y);
      case DimOp::kMax: return t.max(x, y);
      default: return fail(Code::kVersion, "section graph: dim operator " + std::to_string(static_cast<int>(op)) + " is unknown");
    }
  }

  Result<std::string> new_name(const flatbuffers::String* s) {
    std::string name = text(s);
    if (graph_.find_value(name) != kNoId) return corrupt("two values are named '" + name + "'");
    return name;
  }

  Result<void> read_input(const fbs::Input& in) {
    LATHE_TRY(std::string name, new_name(in.name()));
    LATHE_TRY(const DType dtype, dtype_of(in.dtype()));
    if (count(in.dims()) > kMaxRank) return corrupt("input '" + name + "' has rank " + std::to_string(count(in.dims())));
    TensorType type{dtype, {}};
    for (uint32_t i = 0; i < count(in.dims()); ++i) {
      const uint32_t d = in.dims()->Get(i);
      if (d >= dims_.size())
        return corrupt("input '" + name + "' has dim record " + std::to_string(d) + " of " + std::to_string(dims_.size()));
      type.dims.push_back(dims_[d]);
    }
    LATHE_TRY(std::optional<Quant> quant, quant_of(in.quant()));
    values_.push_back(graph_.add_input(std::move(name), std::move(type), std::move(quant)));
    return {};
  }

  Result<void> read_stored(const fbs::Constant& in, ValueKind kind) {
    LATHE_TRY(std::string name, new_name(in.name()));
    LATHE_TRY(const DType dtype, dtype_of(in.dtype()));
    if (count(in.dims()) > kMaxRank) return corrupt("constant '" + name + "' has rank " + std::to_string(count(in.dims())));
    TensorType type{dtype, {}};
    uint64_t elems = 1;
    for (uint32_t i = 0; i < count(in.dims()); ++i) {
      const int32_t d = in.dims()->Get(i);
      type.dims.push_back(graph_.dims().constant(d));
      if (d < 0 || __builtin_mul_overflow(elems, static_cast<uint64_t>(d), &elems))
        return corrupt("constant '" + name + "' has impossible dims");
    }
    LATHE_TRY(std::optional<Quant> quant, quant_of(in.quant()));
    auto bytes = contents(in, dtype, elems);
    if (!bytes) return tl::unexpected<Error>(with_context(std::move(bytes.error()), "constant '" + name + "'"));
    values_.push_back(kind == ValueKind::kConstant
                          ? graph_.add_constant(std::move(name), std::move(type), std::move(*bytes), std::move(quant))
                          : graph_.add_variable(std::move(name), std::move(type), std::move(*bytes)));
    return {};
  }

  Result<Constant> contents(const fbs::Constant& in, DType dtype, uint64_t elems) {
    const uint64_t at = uint64_t{in.at()} * kUnitBytes;
    if (at > weights_.size || in.bytes() > weights_.size - at) return corrupt("bytes outside of weights");
    const Bytes stored{weights_.data + at, in.bytes()};
    const auto layout = static_cast<Layout>(in.layout());
    if (layout == Layout::kPlain) {
      return Constant{owner_, std::span(reinterpret_cast<const std::byte*>(stored.data), stored.size)};
    }
    // This bounds what is allocated: a packed form is never smaller than the canonical one, but for the block-sparse one, whose
    // tables unpacked() checks first.
    if (elems > stored.size && layout != Layout::kGemmSparseS8) return corrupt("packed bytes are fewer than elements");
    std::optional<ConvPacking> packing;
    if (const fbs::PackingRecord* p = in.packing()) {
      packing = ConvPacking{p->depthwise() != 0, p->groups(), p->n(), p->segs(), p->seg_k(), p->kh(), p->kw()};
    }
    return unpacked(layout, dtype, elems, packing, stored);
  }

  Result<void> read_node(const fbs::Node& in) {
    const auto op = static_cast<Op>(in.op());
    const std::string name = text(in.name());
    if (op_name(op) == nullptr)
      return fail(Code::kUnsupported, "section graph: node '" + name + "' has op number " + std::to_string(in.op()) +
                                          ", which this build does not know");
    LATHE_TRY(Attrs attrs, attrs_of(op, in.attrs()));
    std::vector<ValueId> inputs;
    for (uint32_t i = 0; i < count(in.inputs()); ++i) {
      const uint32_t v = in.inputs()->Get(i);
      if (v != kNoId && v >= values_.size())
        return corrupt("node '" + name + "' reads value " + std::to_string(v) + " of " + std::to_string(values_.size()));
      inputs.push_back(v == kNoId ? kNoId : values_[v]);
    }
    std::vector<std::string> result_names;
    std::vector<std::optional<Quant>> quants;
    for (uint32_t i = 0; i < count(in.results()); ++i) {
      const fbs::Result& r = *in.results()->Get(i);
      result_names.push_back(r.name() == nullptr ? name : r.name()->str());
      if (graph_.find_value(result_names.back()) != kNoId) return corrupt("two values are named '" + result_names.back() + "'");
      LATHE_TRY(auto q, quant_of(r.quant()));
      quants.push_back(std::move(q));
    }
    LATHE_TRY(const NodeId n, graph_.add_node(op, std::move(attrs), std::move(inputs), name, result_names, quants));
    if (graph_.node(n).outputs.size() != count(in.results()))
      return corrupt("node '" + name + "' has " + std::to_string(count(in.results())) + " results");
    for (ValueId v : graph_.node(n).outputs) values_.push_back(v);
    return {};
  }

  const fbs::Graph& in_;
  Bytes weights_;
  const std::shared_ptr<const void>& owner_;
  Graph graph_;
  std::vector<Dim> dims_;
  std::vector<ValueId> values_;  // by number in the file
};

}  // namespace

Result<Graph> read_graph(Bytes section, Bytes weights, const std::shared_ptr<const void>& owner) {
  flatbuffers::Verifier verifier(section.data, section.size, /*max_depth=*/16, kMaxTables);
  if (section.data == nullptr || section.size < 8 || !fbs::VerifyGraphBuffer(verifier)) return corrupt("the buffer is damaged");
  return GraphReader(*fbs::GetGraph(section.data), weights, owner).run();
}

Result<void> check_constant_hashes(Bytes section, Bytes weights) {
  const fbs::Graph& graph = *fbs::GetGraph(section.data);
  for (const auto* list : {graph.constants(), graph.variables()}) {
    for (uint32_t i = 0; i < count(list); ++i) {
      const fbs::Constant& c = *list->Get(i);
      const Bytes stored{weights.data + uint64_t{c.at()} * kUnitBytes, c.bytes()};
      if (constant_hash(static_cast<Layout>(c.layout()), stored) != c.hash())
        return corrupt("constant '" + text(c.name()) + "' has other bytes than were written");
    }
  }
  return {};
}

}  // namespace lathe
