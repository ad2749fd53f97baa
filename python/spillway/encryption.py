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
    """Keys for Parquet's modular encryption of a file (``AES_GCM_V1``).

    Pages, their headers, dictionaries, indexes, bloom filters, statistics and the footer are encrypted and
    authenticated separately: a reader with some of the keys can read some of the columns, and detects if a
    part that it reads was changed or moved. Writing the same rows twice gives different bytes. Neither
    messages nor `repr` show keys.

    Metadata of Arrow fields may contain values: a polars Enum stores its categories there. So it is not
    stored for columns whose key a reader of the footer may lack: those with their own key, and with a signed
    footer all encrypted columns. If there are such columns, metadata of the whole schema is also left out,
    except that of pandas. ``metadata`` is stored unchanged.

    Args:
        footer_key: The key of the footer and of all columns not in ``column_keys``: 16 bytes for AES-128, 32
            for AES-256.
        column_keys: The keys of single leaf columns, by paths as in ``dictionary`` of `WriterOptions`. None
            leaves a column's pages unencrypted: if the footer is signed, readers need no key for them. With
            an encrypted footer, they are still not secret, but readers need the footer key to find them.
        plaintext_footer: Sign the footer instead of encrypting it. Schema, row counts, key-value metadata and
            unencrypted columns can then be read without a key.
        aad_prefix: Bytes that identify the file, such as its table and date. Each part of the file is
            authenticated with them, so it cannot be passed off as part of another file. All files of a
            dataset share the prefix.
        store_aad_prefix: Store the prefix in the file. Otherwise readers must supply it.
        footer_key_metadata: Bytes stored with the footer, from which a key management system finds its key.
        column_key_metadata: The same for the keys in ``column_keys``, by column.

    Raises:
        OptionError: A key has the wrong length, ``aad_prefix`` is empty, or ``store_aad_prefix`` is False
            without a prefix.
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
