#include <algorithm>

#include "graph/file/graph_section.h"
#include "graph/file/model_generated.h"

namespace lathe {
namespace {

namespace fb = flatbuffers;

class GraphWriter {
 public:
  GraphWriter(const Graph& graph, const StoredConstants& stored)
      : graph_(graph), stored_(stored), numbers_(graph.value_count(), kNoId) {}

  std::vector<uint8_t> run() {
    const auto inputs = write_inputs();
    const auto constants = write_stored(ValueKind::kConstant), variables = write_stored(ValueKind::kVariable);
    const auto nodes = write_nodes();
    std::vector<uint32_t> outputs;
    for (ValueId v : graph_.outputs()) outputs.push_back(numbers_[v]);
    const auto output_list = b_.CreateVector(outputs);
    const auto symbols = b_.CreateVectorOfStrings(symbols_);
    const auto dims = b_.CreateVectorOfStructs(records_);
    fbs::FinishGraphBuffer(b_, fbs::CreateGraph(b_, symbols, dims, inputs, constants, variables, nodes, output_list));
    return {b_.GetBufferPointer(), b_.GetBufferPointer() + b_.GetSize()};
  }

 private:
  uint32_t dim(Dim d) {
    const auto found = record_of_.find(d.id);
    if (found != record_of_.end()) return found->second;
    const DimNode& node = graph_.dims().node(d);
    int64_t a = node.a, b = node.b;
    if (node.op == DimOp::kSymbol) {
      a = symbol(static_cast<size_t>(node.a));
    } else if (node.op != DimOp::kConst) {
      a = dim(Dim{static_cast<uint32_t>(node.a)});
      b = dim(Dim{static_cast<uint32_t>(node.b)});
    }
    records_.push_back(fbs::DimRecord(a, b, static_cast<uint8_t>(node.op)));
    return record_of_[d.id] = static_cast<uint32_t>(records_.size() - 1);
  }

  int64_t symbol(size_t number) {
    const std::string& name = graph_.dims().symbol_name(number);
    const auto at = std::find(symbols_.begin(), symbols_.end(), name);
    if (at != symbols_.end()) return at - symbols_.begin();
    symbols_.push_back(name);
    return static_cast<int64_t>(symbols_.size()) - 1;
  }

  fb::Offset<fbs::Quant> quant(const std::optional<Quant>& q) {
    if (!q) return 0;
    const bool symmetric = std::all_of(q->zero_points.begin(), q->zero_points.end(), [](int32_t z) { return z == 0; });
    const auto scales = b_.CreateVector(q->scales);
    const fb::Offset<fb::Vector<int32_t>> zeros = symmetric ? 0 : b_.CreateVector(q->zero_points);
    return fbs::CreateQuant(b_, scales, zeros, q->axis, q->qmin, q->qmax);
  }

  fb::Offset<fb::Vector<fb::Offset<fbs::Input>>> write_inputs() {
    std::vector<fb::Offset<fbs::Input>> list;
    for (ValueId v : graph_.inputs()) {
      const Value& value = graph_.value(v);
      numbers_[v] = next_++;
      std::vector<uint32_t> dims;
      for (Dim d : value.type.dims) dims.push_back(dim(d));
      const auto name = b_.CreateString(value.name);
      const auto dim_list = b_.CreateVector(dims);
      list.push_back(fbs::CreateInput(b_, name, static_cast<uint8_t>(value.type.dtype), dim_list, quant(value.quant)));
    }
    return b_.CreateVector(list);
  }

  fb::Offset<fb::Vector<fb::Offset<fbs::Constant>>> write_stored(ValueKind kind) {
    std::vector<fb::Offset<fbs::Constant>> list;
    for (ValueId v = 0; v < graph_.value_count(); ++v) {
      const Value& value = graph_.value(v);
      if (value.dead || value.kind != kind) continue;
      numbers_[v] = next_++;
      list.push_back(constant(value, stored_.at(v)));
    }
    return b_.CreateVector(list);
  }

  fb::Offset<fbs::Constant> constant(const Value& value, const StoredConstant& s) {
    std::vector<int32_t> dims;
    for (Dim d : value.type.dims) dims.push_back(static_cast<int32_t>(graph_.dims().value(d).value_or(0)));
    const auto name = b_.CreateString(value.name);
    const auto dim_list = b_.CreateVector(dims);
    const auto q = quant(value.quant);
    const ConvPacking p = s.packing.value_or(ConvPacking{});
    const fbs::PackingRecord packing(p.depthwise ? 1 : 0, p.groups, p.n, p.segs, p.seg_k, p.kh, p.kw);
    return fbs::CreateConstant(b_, name, static_cast<uint8_t>(value.type.dtype), dim_list, q, s.at, s.bytes,
                               static_cast<uint8_t>(s.layout), s.packing ? &packing : nullptr, s.hash);
  }

  fb::Offset<fb::Vector<fb::Offset<fbs::Node>>> write_nodes() {
    std::vector<fb::Offset<fbs::Node>> list;
    for (NodeId n : graph_.order()) {
      const Node& node = graph_.node(n);
      std::vector<uint32_t> inputs;
      for (ValueId v : node.inputs) inputs.push_back(v == kNoId ? kNoId : numbers_[v]);
      std::vector<fb::Offset<fbs::Result>> results;
      for (ValueId v : node.outputs) {
        numbers_[v] = next_++;
        results.push_back(result(node, graph_.value(v)));
      }
      const std::vector<uint8_t> attrs = attr_bytes(node.attrs);
      list.push_back(fbs::CreateNodeDirect(b_, static_cast<uint16_t>(node.op), &attrs, &inputs, &results, node.name.c_str()));
    }
    return b_.CreateVector(list);
  }

  fb::Offset<fbs::Result> result(const Node& node, const Value& value) {
    const fb::Offset<fb::String> name = value.name == node.name ? 0 : b_.CreateString(value.name);
    return fbs::CreateResult(b_, name, quant(value.quant));
  }

  static std::vector<uint8_t> attr_bytes(const Attrs& attrs) {
    return std::visit(
        []<class A>(const A& a) {
          const auto* p = reinterpret_cast<const uint8_t*>(&a);
          return std::vector<uint8_t>(p, p + (A::kEmpty ? 0 : sizeof(A)));
        },
        attrs);
  }

  fb::FlatBufferBuilder b_;
  const Graph& graph_;
  const StoredConstants& stored_;
  std::vector<uint32_t> numbers_;  // of values in the file
  uint32_t next_ = 0;
  std::map<uint32_t, uint32_t> record_of_;
  std::vector<fbs::DimRecord> records_;
  std::vector<std::string> symbols_;
};

}  // namespace

std::vector<uint8_t> write_graph(const Graph& graph, const StoredConstants& stored) { return GraphWriter(graph, stored).run(); }

}  // namespace lathe
