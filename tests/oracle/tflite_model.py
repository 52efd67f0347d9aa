"""TFLite models of one operator, built in memory and run by LiteRT's reference kernels, for make_tflite_ops.py."""
import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as s
from ai_edge_litert.interpreter import Interpreter, OpResolverType

TYPES = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.int32): 2, np.dtype(np.uint8): 3, np.dtype(np.int64): 4,
         np.dtype(np.bool_): 6, np.dtype(np.int16): 7, np.dtype(np.int8): 9}
RESOURCE = 13  # a handle of a variable
VERSIONS = {"BROADCAST_TO": 2}  # where the first does not do
RNG = np.random.default_rng(5)
CASES = {}


def f32(*shape, lo=-1.0, hi=1.0):
    return RNG.uniform(lo, hi, shape).astype(np.float32)


def integers(dtype, *shape, lo=None, hi=None):
    info = np.iinfo(dtype)
    return RNG.integers(info.min if lo is None else lo, (info.max if hi is None else hi) + 1, shape).astype(dtype)


def s8(*shape, **k):
    return integers(np.int8, *shape, **k)


def u8(*shape, **k):
    return integers(np.uint8, *shape, **k)


class T:
    """A tensor: fed with `data`, a constant (`const`), or made by the operator (a shape and a type)."""

    def __init__(self, data=None, const=None, shape=None, dtype=np.float32, quant=None, axis=0, variable=False):
        array = data if data is not None else const
        self.data, self.const, self.quant, self.axis, self.variable = data, const, quant, axis, variable
        self.shape = list(array.shape) if array is not None else list(shape or [])
        self.dtype = None if dtype == RESOURCE else np.dtype(array.dtype if array is not None else dtype)
        self.type = RESOURCE if dtype == RESOURCE else TYPES[self.dtype]


def options(name, **values):
    o = getattr(s, name + "T")()
    for k, v in values.items():
        assert hasattr(o, k), (name, k)
        setattr(o, k, v)
    return name, o


class Model:
    """Operators that are added one by one; a tensor is known by its T. The first subgraph is the main one."""

    def __init__(self):
        self.model = s.ModelT()
        self.model.version, self.model.subgraphs, self.model.buffers, self.model.operatorCodes = 3, [], [s.BufferT()], []
        self.ids = []
        self.subgraph()

    def subgraph(self):
        graph = s.SubGraphT()
        graph.tensors, graph.inputs, graph.outputs, graph.operators = [], [], [], []
        self.model.subgraphs.append(graph)
        self.ids.append({})

    def tensor(self, t, at=0):
        if t is None:
            return -1
        graph, ids = self.model.subgraphs[at], self.ids[at]
        if t in ids:
            return ids[t]
        tensor = s.TensorT()
        tensor.name, tensor.shape, tensor.type = f"t{len(graph.tensors)}", t.shape, t.type
        tensor.buffer, tensor.isVariable, tensor.hasRank = 0, t.variable, True
        if t.const is not None:
            tensor.buffer = len(self.model.buffers)
            self.model.buffers.append(s.BufferT())
            self.model.buffers[-1].data = np.frombuffer(t.const.tobytes(), np.uint8)
        if t.quant is not None:
            tensor.quantization = s.QuantizationParametersT()
            scales, zeros = np.atleast_1d(t.quant[0]).astype(np.float32), np.atleast_1d(t.quant[1])
            tensor.quantization.scale, tensor.quantization.zeroPoint = list(map(float, scales)), list(map(int, zeros))
            tensor.quantization.quantizedDimension = t.axis
        ids[t] = len(graph.tensors)
        if t.data is not None:
            graph.inputs.append(ids[t])
        graph.tensors.append(tensor)
        return ids[t]

    def add(self, code, inputs, outputs, opts=None, at=0):
        op, operator_code = s.OperatorT(), s.OperatorCodeT()
        operator_code.builtinCode = getattr(s.BuiltinOperator, code)
        operator_code.deprecatedBuiltinCode = min(operator_code.builtinCode, 127)
        operator_code.version = VERSIONS.get(code, 1)
        op.opcodeIndex = len(self.model.operatorCodes)
        self.model.operatorCodes.append(operator_code)
        if opts is not None:
            op.builtinOptionsType, op.builtinOptions = getattr(s.BuiltinOptions, opts[0]), opts[1]
        op.inputs = [self.tensor(t, at) for t in inputs]
        op.outputs = [self.tensor(t, at) for t in outputs]
        self.model.subgraphs[at].operators.append(op)

    def content(self, outputs):
        self.model.subgraphs[0].outputs = [self.tensor(t) for t in outputs]
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def interpreter(content, optimized):
    """Reference kernels; the few operators that have none use the others, and those whose reference kernel is wrong."""
    try:
        if optimized:
            raise ValueError
        return Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1)
    except ValueError:
        return Interpreter(model_content=content, num_threads=1,
                           experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)


def run(name, content, fed, runs, steps=1, optimized=False):
    """`steps`: how far quantized results may be from these."""
    it = interpreter(content, optimized)
    it.allocate_tensors()
    for d, a in zip(it.get_input_details(), fed):
        it.set_tensor(d["index"], a)
    results = []
    for _ in range(runs):
        it.invoke()
        results.append([it.get_tensor(d["index"]) for d in it.get_output_details()])
    assert name not in CASES
    CASES[name] = (content, fed, results, steps)


def case(name, code, inputs, outputs, opts=None, runs=1, **how):
    """One operator; with state, several runs on the same inputs."""
    model = Model()
    model.add(code, inputs, outputs, opts)
    run(name, model.content(outputs), [t.data for t in inputs if t is not None and t.data is not None], runs, **how)


def ints(*v):
    return T(const=np.array(v, np.int32))


def scalar(v):
    return T(const=np.array(v, np.int32))


