// Command row is the row-oriented writer of the study: parquet-go, which takes structs.
package main

import (
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/snappy"
	"github.com/parquet-go/parquet-go/compress/uncompressed"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"spillway.dev/bench/go/logs"
	"spillway.dev/bench/go/protocol"
)

const chunkRows = 10_000

func main() { protocol.Main(run) }

func run() error {
	request, err := protocol.ReadRequest()
	if err != nil {
		return err
	}
	entries, err := read()
	if err != nil {
		return err
	}
	return protocol.Run(int64(len(entries)), "github.com/parquet-go/parquet-go", func() error {
		return write(entries, request)
	})
}

// read makes structs of the rows on standard input; nothing else of them stays in memory.
func read() ([]logs.Entry, error) {
	batches, _, err := protocol.ReadBatches(os.Stdin)
	if err != nil {
		return nil, err
	}
	entries, err := logs.FromBatches(batches)
	for _, batch := range batches {
		batch.Release()
	}
	return entries, err
}

func write(entries []logs.Entry, request protocol.Request) error {
	file, err := os.Create(request.Output)
	if err != nil {
		return err
	}
	defer file.Close()
	writer := parquet.NewGenericWriter[logs.Entry](file,
		parquet.Compression(codec(request)), parquet.MaxRowsPerRowGroup(request.RowGroupRows))
	for len(entries) > 0 {
		chunk := entries[:min(chunkRows, len(entries))]
		if _, err := writer.Write(chunk); err != nil {
			return err
		}
		entries = entries[len(chunk):]
	}
	if err := writer.Close(); err != nil {
		return err
	}
	return file.Close()
}

func codec(request protocol.Request) compress.Codec {
	switch request.Codec {
	case "zstd":
		return &zstd.Codec{Level: zstd.Level(request.Level)}
	case "snappy":
		return &snappy.Codec{}
	default:
		return &uncompressed.Codec{}
	}
}
