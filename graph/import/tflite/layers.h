// Float layers with INT8 weights, for the import functions of layers (hybrid.cc).
#pragma once
#include "graph/import/tflite/importer.h"

namespace lathe::tflite {

// Whether a layer on x with weight w quantizes its float input symmetrically, with one scale or one per output channel for w.
bool is_dynamic(NodeImport& n, ValueId x, ValueId w, bool asymmetric_inputs);
// The node's result from x [.., k], w [n, k] and the bias that is operand 2: x is quantized by rows or as a whole.
Result<void> finish_dynamic(NodeImport& n, ValueId x, ValueId w, const ActivationBounds& bounds, bool per_row);

// The same for a convolution of one image, w [oc, kh, kw, ic]. Requires of finish_dynamic_conv: is_dynamic_conv.
bool is_dynamic_conv(NodeImport& n, ValueId x, ValueId w, const Conv2dAttrs& a);
Result<void> finish_dynamic_conv(NodeImport& n, ValueId x, ValueId w, const Conv2dAttrs& a);

}  // namespace lathe::tflite
