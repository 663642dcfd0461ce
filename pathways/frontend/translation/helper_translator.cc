#include "pathways/frontend/translation/helper_translator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"

namespace pw::frontend {
namespace {

std::string LittleEndian(uint64_t number) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(number >> (8 * i)));
  return bytes;
}

uint64_t FromLittleEndian(const uint8_t* bytes) {
  uint64_t number = 0;
  for (int i = 0; i < 8; ++i) number |= uint64_t{bytes[i]} << (8 * i);
  return number;
}

// Returns true for an error from a healthy process, or if the process could not be started (Ask).
bool IsAnswer(const absl::Status& error) { return absl::IsInvalidArgument(error) || absl::IsFailedPrecondition(error); }

}  // namespace

HelperTranslator::HelperTranslator(Options options, Timers* timers, Executor* strand)
    : options_(std::move(options)),
      timers_(timers),
      strand_(strand),
      process_(std::make_shared<ChildProcess>(ChildProcess::Options{options_.command, options_.address_space_bytes})) {}

HelperTranslator::~HelperTranslator() {
  stopping_ = true;
  process_->Kill();  // ends the current program; later ones see stopping_
}

void HelperTranslator::Prepare() {
  if (std::exchange(prepared_, true)) return;
  thread_.Post([this] {
    const absl::Status status = process_->EnsureRunning();
    if (!status.ok()) {
      PW_LOG_WARNING << "translator: " << status;
    }
  });
}

void HelperTranslator::Translate(Bytes program, std::string version, controller::ResultCallback<Bytes> done) {
  const size_t size = program.size();
  if (waiting_bytes_.fetch_add(size) + size > options_.max_waiting_bytes) {
    waiting_bytes_ -= size;
    return std::move(done)(absl::ResourceExhaustedError(
        absl::StrCat("programs of ", waiting_bytes_.load(), " bytes wait to be translated; compile this one again later")));
  }
  thread_.Post([this, program = std::move(program), version = std::move(version), done = std::move(done), size]() mutable {
    auto result = std::make_shared<absl::StatusOr<Bytes>>(TranslateNow(program, version));
    waiting_bytes_ -= size;
    strand_->Post([result, done = std::move(done)]() mutable { std::move(done)(std::move(*result)); });
  });
}

absl::StatusOr<Bytes> HelperTranslator::TranslateNow(const Bytes& program, const std::string& version) {
  if (stopping_) return absl::CancelledError("the controller ends");
  auto turn = std::make_shared<std::atomic<Turn>>(Turn::kRunning);
  timers_->After(options_.limit, strand_, [turn, process = process_] {
    if (Turn running = Turn::kRunning; turn->compare_exchange_strong(running, Turn::kTimedOut)) process->Kill();
  });
  absl::StatusOr<Bytes> result = Ask(program, version, *turn);
  Turn running = Turn::kRunning;
  const bool in_time = turn->compare_exchange_strong(running, Turn::kDone);
  if (in_time && (result.ok() || IsAnswer(result.status()))) return result;
  const std::string ended = process_->End();
  if (stopping_) return absl::CancelledError("the controller ends");
  const std::string why = in_time ? absl::StrCat(result.status().message(), "; ", ended)
                                  : absl::StrCat("it took longer than ", absl::FormatDuration(options_.limit));
  PW_LOG_WARNING << "the translator, " << options_.command[0] << ", failed at a program of " << program.size()
                 << " bytes: " << why;
  return absl::Status(in_time ? absl::StatusCode::kInternal : absl::StatusCode::kDeadlineExceeded,
                      absl::StrCat("the translator beside the controller (", options_.command[0], ") failed: ", why,
                                   ". The controller's log may say more"));
}

// INVALID_ARGUMENT: the healthy helper says why it cannot translate the program. FAILED_PRECONDITION: the helper does not start.
absl::StatusOr<Bytes> HelperTranslator::Ask(const Bytes& program, const std::string& version, const std::atomic<Turn>& turn) {
  if (const absl::Status status = process_->EnsureRunning(); !status.ok())
    return absl::FailedPreconditionError(absl::StrCat("the translator beside the controller does not start: ", status.message()));
  // Checked after the process has started: a later kill reaches the process.
  if (stopping_ || turn == Turn::kTimedOut) return absl::CancelledError("too late");
  PW_RETURN_IF_ERROR(process_->Write(LittleEndian(program.size())));
  PW_RETURN_IF_ERROR(process_->Write(absl::StrCat(std::string(1, static_cast<char>(version.size())), version)));
  PW_RETURN_IF_ERROR(process_->Write(program.view()));
  uint8_t header[9];
  PW_RETURN_IF_ERROR(process_->Read(header, sizeof(header)));
  const uint64_t size = FromLittleEndian(header + 1);
  if (header[0] > 1 || size > 2 * kMaxTranslatable) {
    return absl::InternalError(absl::StrCat("it answered nonsense: kind ", header[0], ", ", size, " bytes"));
  }
  std::string answer(size, '\0');
  PW_RETURN_IF_ERROR(process_->Read(answer.data(), size));
  if (header[0] == 1) return Bytes::FromString(std::move(answer));
  return absl::InvalidArgumentError(absl::StrCat(answer, " (beside the controller: ", options_.command[0], ")"));
}

}  // namespace pw::frontend
