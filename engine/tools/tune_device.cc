#include "tools/tune_device.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/random.h"
#include "tools/json.h"
#include "tools/tune_report.h"

namespace ebbtide {
namespace {

class Measurement {
 public:
  Measurement(FileSystem& fs, const Clock& clock, const DeviceTest& test)
      : fs_(fs), clock_(clock), test_(test), path_(test.dir + "/" + kDeviceFileName), last_told_ns_(clock.mono_ns()) {}

  /// Measures; the caller removes the file.
  Result<DeviceFigures> run() {
    TRY(write());
    TRY_ASSIGN(file, fs_.open(path_, {.direct = true}));
    figures_.direct = file->native().alignment > 1;
    TRY(read_in_sequence(*file));
    TRY(read_at_random(*file));
    conclude();
    return figures_;
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  Status create() {
    auto created = fs_.create(path_);
    if (!created.is_ok()) return created.status();
    file_ = std::move(created).value();
    return Status::ok();
  }

 private:
  /// Reports progress if it is due. Returns kAborted if a stop is requested.
  Status go_on(const char* what, std::uint64_t done, std::uint64_t all) {
    if (test_.stopped()) return Status::aborted("the measurement was stopped; the test file is removed");
    const std::uint64_t now = clock_.mono_ns();
    if (now - last_told_ns_ < kDeviceProgressNs) return Status::ok();
    last_told_ns_ = now;
    test_.progress(std::string(what) + ", " + std::to_string(done * 100 / all) + " %");
    return Status::ok();
  }
  [[nodiscard]] double us_since(std::uint64_t begin_ns) const {
    return std::max(static_cast<double>(clock_.mono_ns() - begin_ns), 1.0) / 1000;
  }

  Status write() {
    // Random bytes, so that a device or file system that compresses gains nothing.
    Random random(test_.seed);
    std::string piece(kDevicePiece, '\0');
    for (char& byte : piece) byte = static_cast<char>(random.uniform(256));
    const std::uint64_t begin = clock_.mono_ns();
    for (std::uint64_t done = 0; done < bytes(); done += kDevicePiece) {
      TRY(go_on("writing", done, bytes()));
      TRY(file_->append(Bytes(piece)));
      TRY(file_->write_back());
    }
    TRY(file_->sync());
    figures_.write_bytes_per_us = static_cast<double>(bytes()) / us_since(begin);
    return file_->close();
  }

  Status read_in_sequence(const RandomAccessFile& file) {
    std::string piece(kDevicePiece, '\0');
    const std::uint64_t begin = clock_.mono_ns();
    for (std::uint64_t done = 0; done < bytes(); done += kDevicePiece) {
      TRY(go_on("reading in sequence", done, bytes()));
      TRY(file.read(done, piece.size(), piece.data()));
    }
    figures_.sequential_bytes_per_us = static_cast<double>(bytes()) / us_since(begin);
    return Status::ok();
  }

  /// Reads pages of all sizes in turn, so that other load on the machine slows all sizes alike.
  Status read_at_random(const RandomAccessFile& file) {
    Random random(test_.seed);
    std::string buffer(std::end(kDevicePageSizes)[-1], '\0');
    figures_.random_read_us.assign(std::size(kDevicePageSizes), 0);
    for (int i = 0; i < test_.random_reads; ++i) {
      TRY(go_on("reading at random offsets", static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(test_.random_reads)));
      for (std::size_t size = 0; size < std::size(kDevicePageSizes); ++size) {
        const std::uint64_t page = kDevicePageSizes[size], begin = clock_.mono_ns();
        TRY(file.read(random.uniform(bytes() / page) * page, page, buffer.data()));
        figures_.random_read_us[size] += us_since(begin) / test_.random_reads;
      }
    }
    return Status::ok();
  }

  void conclude() {
    std::size_t best = 0;
    for (std::size_t i = 0; i < figures_.random_read_us.size(); ++i) {
      if (figures_.random_read_us[i] <= figures_.random_read_us[0] * kDevicePageSlack) best = i;
    }
    figures_.page_bytes = static_cast<double>(kDevicePageSizes[best]);
    figures_.sequential_cost = figures_.page_bytes / figures_.sequential_bytes_per_us / figures_.random_read_us[best];
    figures_.write_asymmetry = figures_.sequential_bytes_per_us / figures_.write_bytes_per_us;
  }

  [[nodiscard]] std::uint64_t bytes() const { return test_.file_bytes / kDevicePiece * kDevicePiece; }

  FileSystem& fs_;
  const Clock& clock_;
  const DeviceTest& test_;
  const std::string path_;
  std::unique_ptr<WritableFile> file_;
  std::uint64_t last_told_ns_;
  DeviceFigures figures_;
};

/// Returns kNoSpace unless the disk has space for the file, and kDeviceFreeShare of the disk's size stays free.
Status check_space(FileSystem& fs, const DeviceTest& test) {
  TRY_ASSIGN(space, fs.disk_space(test.dir));
  const double needed = static_cast<double>(test.file_bytes) + kDeviceFreeShare * static_cast<double>(space.total_bytes);
  if (static_cast<double>(space.free_bytes) >= needed) return Status::ok();
  return Status::no_space("the disk of " + test.dir + " has " + std::to_string(space.free_bytes) +
                          " bytes free; the test needs " + formatted(needed, "%.0f") +
                          ": for its file, and for the 5 % of the disk that must stay free");
}

}  // namespace

Result<DeviceFigures> measure_device(FileSystem& fs, const Clock& clock, const DeviceTest& test) {
  if (test.file_bytes < kDevicePiece)
    return Status::invalid_argument("the test file has " + std::to_string(test.file_bytes) + " bytes; allowed: 1MiB or more");
  if (test.random_reads < 1)
    return Status::invalid_argument("the number of random reads is " + std::to_string(test.random_reads) +
                                    "; allowed: 1 or more");
  TRY(check_space(fs, test));
  Measurement measurement(fs, clock, test);
  TRY(measurement.create());  // fails if the file exists: it is not this measurement's file, so it is not removed
  auto figures = measurement.run();
  const Status removed = fs.unlink(measurement.path());
  if (figures.is_ok() && !removed.is_ok()) return removed.with_context("the test file could not be removed");
  return figures;
}

std::string device_yaml(const DeviceFigures& figures) {
  std::string out = "# Measured by ebbtide-tune device";
  out += figures.direct ? ", without the system's page cache.\n" : ". Reads may come from the system's page cache.\n";
  for (std::size_t i = 0; i < figures.random_read_us.size(); ++i)
    out += "# random read of " + std::to_string(kDevicePageSizes[i] / 1024) + "KiB: " + formatted(figures.random_read_us[i]) +
           " us\n";
  out += "# sequential read: " + formatted(figures.sequential_bytes_per_us, "%.0f") +
         " MB/s, write with sync: " + formatted(figures.write_bytes_per_us, "%.0f") + " MB/s\n";
  out += "page_size: " + formatted(figures.page_bytes / 1024, "%.0f") + "KiB\n";
  out += "write_asymmetry: " + formatted(figures.write_asymmetry, "%.4g") + "\n";
  out += "sequential_cost: " + formatted(figures.sequential_cost, "%.4g") + "\n";
  return out + "# For the advice of a server: CONFIG SET tuning.write_asymmetry " + formatted(figures.write_asymmetry, "%.4g") +
         " tuning.sequential_cost " + formatted(figures.sequential_cost, "%.4g") + "\n";
}

std::string device_json(const DeviceFigures& figures) {
  JsonObject random, out;
  for (std::size_t i = 0; i < figures.random_read_us.size(); ++i)
    random.raw(std::to_string(kDevicePageSizes[i]), json_number(figures.random_read_us[i]));
  out.raw("page_size", json_number(figures.page_bytes)).raw("write_asymmetry", json_number(figures.write_asymmetry));
  out.raw("sequential_cost", json_number(figures.sequential_cost)).raw("direct", figures.direct ? "true" : "false");
  out.raw("sequential_bytes_per_second", json_number(figures.sequential_bytes_per_us * 1e6));
  out.raw("write_bytes_per_second", json_number(figures.write_bytes_per_us * 1e6));
  return out.add("random_read_us", random).str() + "\n";
}

}  // namespace ebbtide
