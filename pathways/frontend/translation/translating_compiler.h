// TranslatingCompiler: compiles clients' programs, also those that are newer than the devices' runtime. The compile handler uses it.
//
// A program is first sent to the hosts as it is. If they cannot read it because its StableHLO is newer
// (controller::kNewerThanRuntime), it is translated to the version that all hosts read, and compiled again. The client's own
// process translates it if that process has our package, otherwise a helper beside the front end.
//
// Invariants:
//   TC-1  a program that the hosts read is not translated, and none is hashed before the first translation
//   TC-2  a program is translated at most once for a compilation, and once for all compilations while its translation is kept
//   TC-3  a translation by a client's process reaches no other client
// Strand-confined; `done` runs as Session::Compile says.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/controller/session.h"
#include "pathways/frontend/translation/program_translator.h"
#include "pathways/frontend/translation/translations.h"

namespace pw::frontend {

class ClientSession;

class TranslatingCompiler : public std::enable_shared_from_this<TranslatingCompiler> {
 public:
  using Done = controller::ResultCallback<std::shared_ptr<const controller::ExecutableInfo>>;
  struct Options {
    absl::Duration client_limit = absl::Seconds(60);  // the time for a client's process to translate
    size_t max_program_bytes = kMaxTranslatable;
    Translations::Limits kept = {};
  };

  // `helper` may be null: then programs of clients without our package are not translated. All pointers must outlive the last session.
  TranslatingCompiler(const Options& options, ProgramTranslator* helper, Timers* timers, Executor* strand)
      : options_(options), helper_(helper), timers_(timers), strand_(strand), translations_(options.kept) {}

  void Compile(ClientSession& session, controller::CompileRequest request, Done done);
  void Forget(const ClientSession& session);

  const Translations& translations() const { return translations_; }

 private:
  // A compilation that the hosts refused.
  struct Refused;

  void Translate(ClientSession& session, Refused refused);
  void TranslateByHelper(Refused refused);
  void OnTranslated(Refused refused, uint64_t owner, absl::StatusOr<Bytes> translation);

  const Options options_;
  ProgramTranslator* const helper_;
  Timers* const timers_;
  Executor* const strand_;
  Translations translations_;
};

}  // namespace pw::frontend
