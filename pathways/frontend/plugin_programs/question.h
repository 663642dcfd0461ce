// Questions of the package to the cluster (session/questions.h), as plugin programs. Compiling asks the question. Executing,
// without arguments, returns the answer as an array u8[length] on a device of the cluster.
#pragma once

#include <memory>
#include <string>

#include "pathways/frontend/plugin_programs/plugin_program.h"

namespace pw::frontend {

std::shared_ptr<PluginExecutable> MakeQuestion(std::string kind, JsonObject request);

}  // namespace pw::frontend
