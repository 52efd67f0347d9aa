// ONNX models of a few nodes in one line of text, for tables of many.
//
//   model     = opset node { ";" node }
//   node      = [ "ms:" | "preview:" | domain ":" ] operator { operand } [ "->" { result } ] [ "|" { attribute } ]
//   operand   = name                          a value that stands in the line already
//             | "_"                           left out
//             | name ":" type dims            an input of the model: x:f32[N,3]
//             | name "=" type dims values     an initializer: w=s64[2]{4,-1}; without values numbers of our own choice
//   attribute = name "=" 5 | 0.5 | [1,2] | [1.0,2.0] | 'text' | ['a','b'] | type dims values
//
// Without "->" a node makes y. The results of the last node are the model's outputs. No blanks inside a word.
#pragma once
#include <string>
#include <string_view>

namespace lathe::fuzz {

// The bytes of the model. Requires: a line of this notation; anything else ends the program with a message.
std::string onnx_seed(std::string_view line);

}  // namespace lathe::fuzz
