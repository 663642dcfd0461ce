#include "pathways/usage/usage_file.h"

#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"

namespace pw::usage {
namespace {

// The version of the table's form, in SQLite's user_version.
constexpr int kForm = 1;
constexpr int kBusyMilliseconds = 2000;

constexpr char kTable[] =
    "CREATE TABLE IF NOT EXISTS usage ("
    "day TEXT NOT NULL, user TEXT NOT NULL, device_seconds REAL NOT NULL, computations INTEGER NOT NULL, compile_seconds REAL "
    "NOT NULL, "
    "array_byte_seconds REAL NOT NULL, sessions INTEGER NOT NULL, PRIMARY KEY (day, user)) WITHOUT ROWID; PRAGMA user_version = "
    "1;";
constexpr char kAdd[] =
    "INSERT INTO usage VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (day, user) DO UPDATE SET "
    "device_seconds = device_seconds + ?3, computations = computations + ?4, compile_seconds = compile_seconds + ?5, "
    "array_byte_seconds = array_byte_seconds + ?6, sessions = sessions + ?7";

std::string DayOf(absl::Time time) { return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone()); }

int FormOf(sqlite3* database) {
  sqlite3_stmt* statement = nullptr;
  int form = -1;
  if (sqlite3_prepare_v2(database, "PRAGMA user_version", -1, &statement, nullptr) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW)
    form = sqlite3_column_int(statement, 0);
  sqlite3_finalize(statement);
  return form;
}

}  // namespace

absl::Status UsageFile::Error(const std::string& what) const {
  return absl::UnavailableError(absl::StrCat(path_, ": ", what, ": ", sqlite3_errmsg(database_)));
}

absl::Status UsageFile::Run(const char* sql) {
  return sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) == SQLITE_OK ? absl::OkStatus()
                                                                              : Error("cannot write the usage");
}

absl::StatusOr<std::unique_ptr<UsageFile>> UsageFile::Open(const std::string& path) {
  sqlite3* database = nullptr;
  const int opened =
      sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr);
  std::unique_ptr<UsageFile> file(new UsageFile(path, database));  // closes it, even if opening failed
  if (opened != SQLITE_OK) return file->Error("cannot open the file of usage");
  sqlite3_busy_timeout(database, kBusyMilliseconds);
  const int form = FormOf(database);
  if (form < 0)
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not a file of usage: ", sqlite3_errmsg(database), "; name another file"));
  if (form > kForm)
    return absl::FailedPreconditionError(absl::StrCat(path, " was written by a newer release of pathways; name another file"));
  PW_RETURN_IF_ERROR(file->Run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"));
  PW_RETURN_IF_ERROR(file->Run(kTable));
  return file;
}

UsageFile::~UsageFile() { sqlite3_close(database_); }

absl::Status UsageFile::Add(absl::Time now, const std::vector<Entry>& entries) {
  const std::string day = DayOf(now);
  PW_RETURN_IF_ERROR(Run("BEGIN IMMEDIATE"));
  for (const Entry& entry : entries) {
    if (absl::Status status = AddOne(day, entry); !status.ok()) {
      Run("ROLLBACK").IgnoreError();
      return status;
    }
  }
  absl::Status committed = Run("COMMIT");
  if (!committed.ok()) Run("ROLLBACK").IgnoreError();
  return committed;
}

absl::Status UsageFile::AddOne(const std::string& day, const Entry& entry) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database_, kAdd, sizeof(kAdd), &statement, nullptr) != SQLITE_OK) return Error("cannot write the usage");
  const auto text = [&](int place, const std::string& value) {
    sqlite3_bind_text64(statement, place, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  };
  text(1, day);
  text(2, entry.user);
  sqlite3_bind_double(statement, 3, entry.used.device_seconds);
  sqlite3_bind_int64(statement, 4, entry.used.computations);
  sqlite3_bind_double(statement, 5, entry.used.compile_seconds);
  sqlite3_bind_double(statement, 6, entry.used.array_byte_seconds);
  sqlite3_bind_int64(statement, 7, entry.used.sessions);
  const int done = sqlite3_step(statement);
  sqlite3_finalize(statement);
  return done == SQLITE_DONE ? absl::OkStatus() : Error("cannot write the usage");
}

absl::StatusOr<std::map<std::string, double>> UsageFile::DeviceSeconds(absl::Time now) const {
  const std::string day = DayOf(now);
  constexpr char kRead[] = "SELECT user, device_seconds FROM usage WHERE day = ?1";
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database_, kRead, sizeof(kRead), &statement, nullptr) != SQLITE_OK)
    return Error("cannot read the usage");
  sqlite3_bind_text64(statement, 1, day.data(), day.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  std::map<std::string, double> seconds;
  int step;
  while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
    const auto* user = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    seconds[std::string(user, static_cast<size_t>(sqlite3_column_bytes(statement, 0)))] = sqlite3_column_double(statement, 1);
  }
  sqlite3_finalize(statement);
  if (step != SQLITE_DONE) return Error("cannot read the usage");
  return seconds;
}

}  // namespace pw::usage
