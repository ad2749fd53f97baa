"""Keys of encrypted Parquet files."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from spillway import _native

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spillway.types import ColumnPath

__all__ = ["Encryption"]


@dataclass(frozen=True, repr=False)
class Encryption:
    """Keys that a file is encrypted with, by Parquet's modular encryption (``AES_GCM_V1``).

    Pages, their headers, dictionaries, indexes, bloom filters, statistics and the footer are encrypted and
    authenticated separately: a reader with some of the keys reads some of the columns, and notices when a
    part that it reads was changed or moved. Writing the same rows twice gives different bytes. No message and
    no `repr` shows keys.

    Metadata of Arrow fields may hold values: that of a polars Enum has its categories. So it is not stored
    for columns that a reader of the footer may have no key for: those with their own key, and under a signed
    footer all encrypted ones. With such columns, metadata of the whole schema is left out too, except that
    of pandas. ``metadata`` is stored as it is.

    Args:
        footer_key: The key of the footer and of all columns that are not named: 16 bytes for AES-128, 32 for
            AES-256.
        column_keys: The keys of single leaf columns; a key of the mapping is as in ``dictionary`` of
            `WriterOptions`. None leaves a column's pages in the clear: readable without a key if the footer
            is signed. Under an encrypted footer they are no secret either, but need its key to be found.
        plaintext_footer: Sign the footer instead of encrypting it. Schema, row counts, key-value metadata and
            unencrypted columns can then be read without a key.
        aad_prefix: Bytes that identify the file, such as its table and date. Each part of the file is
            authenticated with them, so that it cannot be taken for a part of another file. All files of a
            dataset have the same prefix.
        store_aad_prefix: Store the prefix in the file. Otherwise readers must supply it.
        footer_key_metadata: Bytes stored beside the footer, from which a key management system finds its key.
        column_key_metadata: The same for the keys in ``column_keys``, by column.

    Raises:
        OptionError: A key has another length, ``aad_prefix`` is empty, or ``store_aad_prefix`` is False
            without one.
        TypeError: A key or its metadata is not ``bytes``.

    Example:
        >>> import secrets
        >>> import pyarrow as pa, spillway
        >>> keys = spillway.Encryption(footer_key=secrets.token_bytes(16))
        >>> spillway.write_parquet(pa.table({"id": [1, 2]}), "secret.parquet", encryption=keys).rows
        2
    """

    _: KW_ONLY
    footer_key: bytes
    column_keys: Mapping[ColumnPath, bytes | None] | None = None
    plaintext_footer: bool = False
    aad_prefix: bytes | None = None
    store_aad_prefix: bool = True
    footer_key_metadata: bytes | None = None
    column_key_metadata: Mapping[ColumnPath, bytes] | None = None

    def __post_init__(self) -> None:
        _native.check_encryption(self)

    def __repr__(self) -> str:
        named = [".".join([path] if isinstance(path, str) else path) for path in self.column_keys or {}]
        return f"Encryption(footer_key=..., columns={named}, plaintext_footer={self.plaintext_footer})"
