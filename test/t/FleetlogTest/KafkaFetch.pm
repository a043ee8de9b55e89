# FleetlogTest::KafkaFetch: Fetch, ListOffsets and OffsetForLeaderEpoch by single requests of any version, and what is in the
# batches that come.
#
# send_* and read_* are apart, so that a test can do something while a request waits; fetch() and the like do both.
package FleetlogTest::KafkaFetch;

use strict;
use warnings;
use Carp qw(confess);
use parent -norequire, 'FleetlogTest::Kafka';
use FleetlogTest::Kafka;
use FleetlogTest::KafkaBatch ();

# ---- Bytes, in the old and in the compact form --------------------------------------

sub string { my ($s, $flexible) = @_; return $flexible ? FleetlogTest::KafkaBatch::uvarint(1 + length $s) . $s : pack('n/a*', $s); }
sub array { my ($flexible, @items) = @_; return ($flexible ? FleetlogTest::KafkaBatch::uvarint(1 + @items) : pack('N', scalar @items)) . join '', @items; }
sub tags { my ($flexible, $content) = @_; return $flexible ? $content // "\0" : ''; }

# Takes values off the front of a string.
sub take { my ($r, $n) = @_; confess('the answer ends too early') if length $$r < $n; return substr $$r, 0, $n, ''; }
sub i8 { return unpack 'c', take($_[0], 1); }
sub i16 { return unpack 's>', take($_[0], 2); }
sub i32 { return unpack 'l>', take($_[0], 4); }
sub i64 { return unpack 'q>', take($_[0], 8); }

sub take_uvarint
{
    my ($r) = @_;
    my ($value, $shift) = (0, 0);

    while (1)
    {
        my $byte = ord take($r, 1);
        $value |= ($byte & 127) << $shift;
        return $value if $byte < 128;
        $shift += 7;
    }
}

# The length of a string, of bytes or of an array; -1: null.
sub take_length { my ($r, $flexible, $how) = @_; return $flexible ? take_uvarint($r) - 1 : $how->($r); }
sub take_string { my ($r, $flexible) = @_; my $n = take_length($r, $flexible, \&i16); return $n < 0 ? undef : take($r, $n); }

# Tagged fields by their numbers.
sub take_tags
{
    my ($r, $flexible) = @_;
    my %tags;

    return {} unless $flexible;
    for (1 .. take_uvarint($r)) { my $tag = take_uvarint($r); $tags{$tag} = take($r, take_uvarint($r)); }
    return \%tags;
}

# ---- Fetch -----------------------------------------------------------------------------

# topics: [ name or, from 13 on, id, [ partition, offset, max_bytes, epoch, last epoch ], ... ], ...
# options: version, max_wait, min_bytes, max_bytes, isolation, session => [ id, epoch ]
sub send_fetch
{
    my ($self, $topics, %opt) = @_;
    my $v = $self->{fetch_version} = $opt{version} // 11;
    my $f = $v >= 12;
    my @session = @{ $opt{session} // [ 0, -1 ] };
    my @topics;

    for my $topic (@$topics)
    {
        my ($name, @parts) = @$topic;
        my @encoded = map {
            my ($partition, $offset, $max, $epoch, $last) = @$_;
            pack('l>', $partition) . ($v >= 9 ? pack('l>', $epoch // -1) : '') . pack('q>', $offset) . ($f ? pack('l>', $last // -1) : '')
              . ($v >= 5 ? pack('q>', -1) : '') . pack('l>', $max // 1048576) . tags($f)
        } @parts;

        push @topics, ($v >= 13 ? $name : string($name, $f)) . array($f, @encoded) . tags($f);
    }
    return $self->request(1, $v,
        ($v < 15 ? pack('l>', -1) : '') . pack('l> l> l> C', $opt{max_wait} // 0, $opt{min_bytes} // 1, $opt{max_bytes} // 0x7fffffff, $opt{isolation} // 0)
          . ($v >= 7 ? pack('l> l>', @session) : '') . array($f, @topics) . ($v >= 7 ? array($f) : '') . ($v >= 11 ? string('', $f) : '') . tags($f),
        flexible => $f);
}

# undef: the connection was closed.  Else { error, session, order => [ keys ], parts => { 'topic:partition' => { ... } } }
sub read_fetch
{
    my ($self) = @_;
    my ($id, $in) = $self->answer or return;
    my $v = $self->{fetch_version};
    my $f = $v >= 12;
    my %out = (id => $id, error => 0, session => 0, parts => {}, order => []);

    take_tags(\$in, $f);
    i32(\$in);
    @out{qw(error session)} = (i16(\$in), i32(\$in)) if $v >= 7;
    for (1 .. take_length(\$in, $f, \&i32))
    {
        my $topic = $v >= 13 ? take(\$in, 16) : take_string(\$in, $f);

        for (1 .. take_length(\$in, $f, \&i32))
        {
            my $partition = i32(\$in);
            my $p = $out{parts}{"$topic:$partition"} = { error => i16(\$in), hw => i64(\$in), lso => i64(\$in) };

            push @{ $out{order} }, "$topic:$partition";
            $p->{start} = i64(\$in) if $v >= 5;
            $p->{aborted} = take_length(\$in, $f, \&i32);
            confess('aborted transactions') if $p->{aborted} > 0;
            $p->{replica} = i32(\$in) if $v >= 11;
            my $n = take_length(\$in, $f, \&i32);
            $p->{null} = $n < 0;
            $p->{records} = $n > 0 ? take(\$in, $n) : '';
            my $tags = take_tags(\$in, $f);
            if (defined(my $diverging = $tags->{0})) { $p->{diverging} = [ i32(\$diverging), i64(\$diverging) ]; }
        }
        take_tags(\$in, $f);
    }
    take_tags(\$in, $f);
    confess('bytes behind the answer') if length $in;
    return \%out;
}

sub fetch { my ($self, @what) = @_; $self->send_fetch(@what); return $self->read_fetch; }

# Of one partition, whose answer it returns.
sub fetch_one
{
    my ($self, $topic, $partition, $offset, %opt) = @_;
    my $answer = $self->fetch([ [ $topic, [ $partition, $offset, $opt{partition_max}, $opt{epoch}, $opt{last_epoch} ] ] ], %opt) or return;

    return { %{ $answer->{parts}{"$topic:$partition"} // confess('another partition') } };
}

# ---- ListOffsets and OffsetForLeaderEpoch ---------------------------------------------------

# asked: [ topic, partition, time, epoch ], ...; returns a list of 'error offset time epoch', as far as the version has them
sub list_offsets
{
    my ($self, $v, @asked) = @_;
    my $f = $v >= 6;
    my @topics = map {
        my ($topic, $partition, $time, $epoch) = @$_;
        string($topic, $f) . array($f, pack('l>', $partition) . ($v >= 4 ? pack('l>', $epoch // -1) : '') . pack('q>', $time) . tags($f)) . tags($f)
    } @asked;
    my @out;

    $self->request(2, $v, pack('l>', -1) . ($v >= 2 ? "\0" : '') . array($f, @topics) . ($v >= 10 ? pack('l>', 1000) : '') . tags($f), flexible => $f);
    my (undef, $in) = $self->answer or return;
    take_tags(\$in, $f);
    i32(\$in) if $v >= 2;
    for (1 .. take_length(\$in, $f, \&i32))
    {
        take_string(\$in, $f);
        for (1 .. take_length(\$in, $f, \&i32))
        {
            i32(\$in);
            my $error = i16(\$in);
            my ($time, $offset) = (i64(\$in), i64(\$in));
            push @out, join ' ', $error, $offset, $time, ($v >= 4 ? i32(\$in) : ());
            take_tags(\$in, $f);
        }
        take_tags(\$in, $f);
    }
    take_tags(\$in, $f);
    confess('bytes behind the answer') if length $in;
    return wantarray ? @out : $out[0];
}

# asked: [ topic, partition, epoch, current epoch ], ...; returns a list of 'error epoch end'
sub epoch_ends
{
    my ($self, $v, @asked) = @_;
    my $f = $v >= 4;
    my @topics = map {
        my ($topic, $partition, $epoch, $current) = @$_;
        string($topic, $f) . array($f, pack('l> l> l>', $partition, $current // -1, $epoch) . tags($f)) . tags($f)
    } @asked;
    my @out;

    $self->request(23, $v, ($v >= 3 ? pack('l>', -1) : '') . array($f, @topics) . tags($f), flexible => $f);
    my (undef, $in) = $self->answer or return;
    take_tags(\$in, $f);
    i32(\$in);
    for (1 .. take_length(\$in, $f, \&i32))
    {
        take_string(\$in, $f);
        for (1 .. take_length(\$in, $f, \&i32))
        {
            my $error = i16(\$in);
            i32(\$in);
            push @out, join ' ', $error, i32(\$in), i64(\$in);
            take_tags(\$in, $f);
        }
        take_tags(\$in, $f);
    }
    return wantarray ? @out : $out[0];
}

# The id of a topic, from Metadata.
sub topic_id
{
    my ($self, $topic) = @_;

    $self->request(3, 10, array(1, "\0" x 16 . string($topic, 1) . "\0") . "\0\0\0\0", flexible => 1);
    my (undef, $in) = $self->answer or confess('no metadata');
    my $at = index $in, string($topic, 1);
    confess("no topic $topic") if $at < 0;
    return substr $in, $at + 1 + length $topic, 16;
}

# ---- Batches --------------------------------------------------------------------------------

sub varint { my ($r) = @_; my $n = take_uvarint($r); return $n & 1 ? -1 - ($n >> 1) : $n >> 1; }
sub varbytes { my ($r) = @_; my $n = varint($r); return $n < 0 ? undef : take($r, $n); }

# Whole batches only, and nothing behind them.  Records are there where they are not compressed.
sub batches
{
    my ($bytes) = @_;
    my @out;

    while (length $bytes)
    {
        my $length = unpack 'N', substr $bytes, 8, 4;
        my $batch = take(\$bytes, 12 + $length);
        my %b = (bytes => $batch);

        @b{qw(base length epoch magic crc attributes last base_time max_time producer producer_epoch sequence count)} =
          unpack 'q> l> l> c N n l> q> q> q> s> l> l>', $batch;
        confess("checksum of the batch at $b{base}") if FleetlogTest::KafkaBatch::crc32c(substr $batch, 21) != $b{crc};
        $b{codec} = $b{attributes} & 7;
        $b{records} = [ records(substr($batch, 61), \%b) ] if $b{codec} == 0;
        push @out, \%b;
    }
    return @out;
}

sub records
{
    my ($in, $b) = @_;
    my @out;

    for (1 .. $b->{count})
    {
        my $record = take(\$in, varint(\$in));
        my %r;

        take(\$record, 1);
        $r{time} = $b->{base_time} + varint(\$record);
        $r{offset} = $b->{base} + varint(\$record);
        $r{key} = varbytes(\$record);
        $r{value} = varbytes(\$record);
        $r{headers} = [ map { [ varbytes(\$record), varbytes(\$record) ] } 1 .. varint(\$record) ];
        confess('bytes behind a record') if length $record;
        push @out, \%r;
    }
    confess('bytes behind the records') if length $in;
    return @out;
}

1;
