#include "pathways/bin/server_flags.h"

#include "pathways/base/status_macros.h"

namespace pw {

void DeclareServer(ServerFlags* options, Flags* flags) {
  flags->Add("shared-directory", &options->server.shared_directory, "DIR",
             "a folder in memory in which clients of this machine hand over large arrays; default: none");
  flags->Add("persistence-directory", &options->server.persistence_directory, "DIR",
             "clients may have profiles written below this folder, and arrays where this process has the devices; default: none");
  flags->Add("object-directory", &options->server.object_directory, "DIR",
             "keeps what clients write to gs://BUCKET/OBJECT, as DIR/gs/BUCKET/OBJECT; default: such writes fail");
  flags->Add(
      "translator-python", &options->translator_python, "PATH",
      "a Python with this package and jaxlib; it translates programs that are newer than the devices' runtime, for clients "
      "without this package. Default: such programs are refused");
}

absl::StatusOr<frontend::ServerOptions> ServerOptionsFrom(const ServerFlags& options, const std::string& flag) {
  frontend::ServerOptions server = options.server;
  PW_RETURN_IF_ERROR(frontend::ParseListenAddress(options.listen, flag, &server));
  if (!options.translator_python.empty()) server.translator = frontend::TranslatorCommand(options.translator_python);
  return server;
}

}  // namespace pw
