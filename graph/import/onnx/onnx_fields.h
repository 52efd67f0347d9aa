// Field numbers of the ONNX protobuf messages that import reads, and the number lists it switches on. Facts of the wire format:
// every other field is skipped. Wire format and numbers are stable: ONNX only appends.
#pragma once
#include <cstdint>

namespace lathe::onnx {

namespace field {
namespace model {
enum : uint32_t {
  kIrVersion = 1,
  kProducerName = 2,
  kProducerVersion = 3,
  kDomain = 4,
  kModelVersion = 5,
  kGraph = 7,
  kOpsetImport = 8,
  kFunctions = 25
};
}
namespace opset { enum : uint32_t { kDomain = 1, kVersion = 2 }; }
namespace graph {
enum : uint32_t { kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12, kValueInfo = 13, kSparseInitializer = 15 };
}
namespace node {
enum : uint32_t { kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5, kDomain = 7, kOverload = 8 };
}
namespace function {
enum : uint32_t {
  kName = 1,
  kInput = 4,
  kOutput = 5,
  kNode = 7,
  kOpsetImport = 9,
  kDomain = 10,
  kAttributeDefault = 11,
  kOverload = 13
};
}
namespace attribute {
enum : uint32_t {
  kName = 1,
  kFloat = 2,
  kInt = 3,
  kString = 4,
  kTensor = 5,
  kGraph = 6,
  kFloats = 7,
  kInts = 8,
  kStrings = 9,
  kType = 20,
  kRefName = 21
};
}
namespace value_info { enum : uint32_t { kName = 1, kType = 2 }; }
namespace type { enum : uint32_t { kTensor = 1 }; }
namespace tensor_type { enum : uint32_t { kElemType = 1, kShape = 2 }; }
namespace shape { enum : uint32_t { kDim = 1 }; }
namespace dimension { enum : uint32_t { kValue = 1, kParam = 2 }; }
namespace tensor {
enum : uint32_t {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
  kExternalData = 13,
  kDataLocation = 14
};
}
namespace string_entry { enum : uint32_t { kKey = 1, kValue = 2 }; }
}  // namespace field

// AttributeProto.type.
enum class AttributeType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14
};

// TensorProto.data_type and TypeProto.Tensor.elem_type: those that have a meaning here; the others (strings, complex, 4- and
// 8-bit floats) are refused by number and name.
enum class ElemType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16
};

// TensorProto.data_location.
inline constexpr int32_t kLocationExternal = 1;

// Opsets of the default domain that the operator list covers, and the oldest IR version with typed attributes.
inline constexpr int64_t kOldestOpset = 6;
inline constexpr int64_t kNewestOpset = 28;
inline constexpr int64_t kOldestIrVersion = 3;

}  // namespace lathe::onnx
