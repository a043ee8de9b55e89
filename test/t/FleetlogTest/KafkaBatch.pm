# FleetlogTest::KafkaBatch: record batches and Produce requests by hand, for what no client would send.
package FleetlogTest::KafkaBatch;

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(batch record produce send_produce read_produce crc32c init_producer_id);

my @table = map { my $c = $_; $c = $c & 1 ? ($c >> 1) ^ 0x82F63B78 : $c >> 1 for 1 .. 8; $c } 0 .. 255;

sub crc32c
{
    my $crc = 0xFFFFFFFF;

    $crc = ($crc >> 8) ^ $table[ ($crc ^ $_) & 0xFF ] for unpack 'C*', $_[0];
    return $crc ^ 0xFFFFFFFF;
}

# Unsigned and zigzag varints.
sub uvarint { my ($n) = @_; my $out = ''; while ($n > 127) { $out .= chr(($n & 127) | 128); $n >>= 7; } return $out . chr $n; }
sub varint { my ($n) = @_; return uvarint($n < 0 ? -2 * $n - 1 : 2 * $n); }

sub field { my ($v) = @_; return defined $v ? varint(length $v) . $v : varint(-1); }

# A record, to be encoded when its place in the batch is known: time (against the batch's), delta, headers.
sub record
{
    my ($key, $value, %opt) = @_;

    return sub {
        my ($index) = @_;
        my @headers = @{ $opt{headers} // [] };
        my $body = "\0" . varint($opt{time} // 0) . varint($opt{delta} // $index) . field($key) . field($value) . varint(scalar @headers) . join('', map { field($_->[0]) . field($_->[1]) } @headers);

        return varint(length $body) . $body;
    };
}

# A batch: records, or raw (what is behind the header) and count; base_time, max_time, attributes, producer => [id, epoch, sequence].
sub batch
{
    my (%opt) = @_;
    my $i = 0;
    my @records = @{ $opt{records} // [] };
    my $count = $opt{count} // @records;
    my $raw = $opt{raw} // join '', map { $_->($i++) } @records;
    my ($id, $epoch, $sequence) = @{ $opt{producer} // [ -1, -1, -1 ] };
    my $base_time = $opt{base_time} // 0;
    my $rest = pack('n N q> q> q> n N N', $opt{attributes} // 0, $count - 1, $base_time, $opt{max_time} // $base_time, $id, $epoch & 0xFFFF, $sequence & 0xFFFFFFFF, $count) . $raw;

    return pack('q> N N C N', $opt{base_offset} // 0, 9 + length $rest, ($opt{epoch} // 0) & 0xFFFFFFFF, 2, crc32c($rest)) . $rest;
}

# Each part is [topic, partition, batch].
sub send_produce
{
    my ($c, $version, $acks, @rest) = @_;
    my @parts = grep { ref } @rest;
    my %opt = grep { !ref } @rest;
    my $flexible = $version >= 9;
    my $string = sub { my ($s) = @_; return $flexible ? (defined $s ? uvarint(1 + length $s) . $s : "\0") : (defined $s ? pack('n/a*', $s) : "\xFF\xFF"); };
    my $tags = $flexible ? "\0" : '';
    my $array = sub { return ($flexible ? uvarint(1 + @_) : pack('N', scalar @_)) . join '', @_; };
    my $bytes = sub { my ($b) = @_; return $flexible ? uvarint(1 + length $b) . $b : pack('N/a*', $b); };
    my $body = $string->($opt{txn}) . pack('n N', $acks & 0xFFFF, $opt{timeout} // 30000) .
        $array->(map { $string->($_->[0]) . $array->(pack('N', $_->[1]) . $bytes->($_->[2]) . $tags) . $tags } @parts) . $tags;

    return $c->request(0, $version, $body, flexible => $flexible);
}

# The next answer: one hash for each partition; nothing when the connection is closed.
sub read_produce
{
    my ($c, $version) = @_;
    my $flexible = $version >= 9;
    my ($id, $in) = $c->answer;

    return unless defined $id;
    my $take = sub { my ($n) = @_; return substr $in, 0, $n, ''; };
    my $number = sub { my ($n, $shift) = (0, 0); while (1) { my $b = ord $take->(1); $n |= ($b & 127) << $shift; return $n if $b < 128; $shift += 7; } };
    my $count = sub { return $flexible ? $number->() - 1 : unpack 'l>', $take->(4); };
    my $string = sub { my $n = $flexible ? $number->() - 1 : unpack 's>', $take->(2); return $n < 0 ? undef : $take->($n); };
    my $tags = sub { return unless $flexible; for (1 .. $number->()) { $number->(); $take->($number->()); } };
    my @out;

    $tags->();
    for (1 .. $count->())
    {
        my $topic = $string->();

        for (1 .. $count->())
        {
            my %p = (topic => $topic);

            @p{qw(partition error offset time)} = unpack 'l> s> q> q>', $take->(22);
            $p{start} = unpack 'q>', $take->(8) if $version >= 5;
            if ($version >= 8)
            {
                for (1 .. $count->()) { $p{record} = unpack 'l>', $take->(4); $string->(); $tags->(); }
                $p{message} = $string->();
            }
            $tags->();
            push @out, \%p;
        }
        $tags->();
    }
    $take->(4);
    $tags->();
    die 'bytes behind a Produce answer' if length $in;
    return @out;
}

sub produce
{
    my ($c, $version, @rest) = @_;

    send_produce($c, $version, @rest);
    return read_produce($c, $version);
}

# A new producer's id and epoch, or its error.
sub init_producer_id
{
    my ($c, $txn) = @_;

    $c->request(22, 1, (defined $txn ? pack('n/a*', $txn) : "\xFF\xFF") . pack('N', 60000));
    my ($throttle, $error, $id, $epoch) = unpack 'N s> q> s>', ($c->answer)[1];

    return $error ? (undef, $error) : ($id, $epoch);
}

1;
