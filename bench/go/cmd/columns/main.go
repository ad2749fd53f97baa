// Command columns has the Arrow writers of the study, by its argument: streaming and buffered start from structs as the
// row-oriented writer does; batches starts from record batches that are there.
package main

import (
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"spillway.dev/bench/go/logs"
	"spillway.dev/bench/go/protocol"
)

const (
	chunkRows = 10_000
	module    = "github.com/apache/arrow-go/v18"
)

func main() { protocol.Main(run) }

func run() error {
	request, err := protocol.ReadRequest()
	if err != nil {
		return err
	}
	if len(os.Args) != 2 {
		return fmt.Errorf("give one of streaming, buffered, batches")
	}
	batches, schema, err := protocol.ReadBatches(os.Stdin)
	if err != nil {
		return err
	}
	rows := int64(0)
	for _, batch := range batches {
		rows += batch.NumRows()
	}
	write, err := writerOf(os.Args[1], batches, schema, request)
	if err != nil {
		return err
	}
	return protocol.Run(rows, module, write)
}

// writerOf prepares the input in the form that a writer starts from.
func writerOf(kind string, batches []arrow.RecordBatch, schema *arrow.Schema, request protocol.Request) (func() error, error) {
	if kind == "batches" {
		return func() error { return writeBatches(batches, schema, request) }, nil
	}
	entries, err := logs.FromBatches(batches)
	if err != nil {
		return nil, err
	}
	for _, batch := range batches {
		batch.Release()
	}
	switch kind {
	case "streaming":
		return func() error { return stream(entries, schema, request) }, nil
	case "buffered":
		return func() error { return buffer(entries, schema, request) }, nil
	default:
		return nil, fmt.Errorf("%q: give one of streaming, buffered, batches", kind)
	}
}

// stream writes each chunk as soon as its batch is built: a row group for each.
func stream(entries []logs.Entry, schema *arrow.Schema, request protocol.Request) error {
	return withWriter(schema, request, func(writer *pqarrow.FileWriter) error {
		return chunks(entries, schema, func(batch arrow.RecordBatch) error {
			defer batch.Release()
			return writer.Write(batch)
		})
	})
}

// buffer gathers the batches of all chunks, and writes them as one table.
func buffer(entries []logs.Entry, schema *arrow.Schema, request protocol.Request) error {
	return withWriter(schema, request, func(writer *pqarrow.FileWriter) error {
		var batches []arrow.RecordBatch
		err := chunks(entries, schema, func(batch arrow.RecordBatch) error {
			batches = append(batches, batch)
			return nil
		})
		if err != nil {
			return err
		}
		table := array.NewTableFromRecords(schema, batches)
		defer table.Release()
		for _, batch := range batches {
			batch.Release()
		}
		return writer.WriteTable(table, request.RowGroupRows)
	})
}

// writeBatches writes batches that are there, into full row groups.
func writeBatches(batches []arrow.RecordBatch, schema *arrow.Schema, request protocol.Request) error {
	return withWriter(schema, request, func(writer *pqarrow.FileWriter) error {
		for _, batch := range batches {
			if err := writer.WriteBuffered(batch); err != nil {
				return err
			}
		}
		return nil
	})
}

func chunks(entries []logs.Entry, schema *arrow.Schema, use func(arrow.RecordBatch) error) error {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	for len(entries) > 0 {
		chunk := entries[:min(chunkRows, len(entries))]
		for row := range chunk {
			logs.Append(builder, &chunk[row])
		}
		if err := use(builder.NewRecordBatch()); err != nil {
			return err
		}
		entries = entries[len(chunk):]
	}
	return nil
}

func withWriter(schema *arrow.Schema, request protocol.Request, use func(*pqarrow.FileWriter) error) error {
	file, err := os.Create(request.Output)
	if err != nil {
		return err
	}
	writer, err := pqarrow.NewFileWriter(schema, file, properties(request), pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		return err
	}
	if err := use(writer); err != nil {
		return err
	}
	return writer.Close() // and the file with it
}

func properties(request protocol.Request) *parquet.WriterProperties {
	codecs := map[string]compress.Compression{
		"zstd": compress.Codecs.Zstd, "snappy": compress.Codecs.Snappy, "uncompressed": compress.Codecs.Uncompressed,
	}
	options := []parquet.WriterProperty{
		parquet.WithCompression(codecs[request.Codec]), parquet.WithMaxRowGroupLength(request.RowGroupRows),
	}
	if request.Codec == "zstd" {
		options = append(options, parquet.WithCompressionLevel(request.Level))
	}
	return parquet.NewWriterProperties(options...)
}
