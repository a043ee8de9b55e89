#!/usr/bin/perl
# check_truth.pl: compares what a server acknowledged (truth logs of fl_load) with what a stream holds.
#
# usage: check_truth.pl [options] TRUTH-FILE...
#   --uri URI          of the database (or what PGHOST and so on say)
#   --stream NAME      the stream (bench)
#   --topics PREFIX    only records whose key begins so; the truth logs then are of these.  Density cannot be seen then.
#   --stored FILE      instead of a database: the lines that the query below gives, for tests of this program
#   --psql PROGRAM     (psql)
#
# Truth logs of several runs of fl_load can be given together only if their connections have different numbers, and a
# stream must hold nothing else that looks like fl_load's payloads; with --topics each run can have a prefix of its own.
#
# Prints one line, name=value with a space between:
#   acknowledged  messages with an A line              stored        records with a stamp of fl_load
#   lost          acknowledged, but not stored         foreign       records without a stamp (not judged)
#   duplicates    stored once more than once           unexplained   those of them that no S line (sent again) explains
#   misordered    records that come after one that the same connection sent later (second copies do not count)
#   never_sent    stored, but beyond what its connection sent (known where the log has an E line)
#   holes         offsets missing between a shard's first and last record
#   reused        offsets that two records have
#   time_back     records with a ts before their predecessor's
# and up to ten examples of each fault.  Status 0 when lost, unexplained, misordered, never_sent, holes, reused and
# time_back are all 0, else 1; 2 when something could not be read.  A file without a single A line is such a case: it proves nothing.

use strict;
use warnings;
use Getopt::Long;

my ($uri, $stream, $topics, $stored_file, $psql) = ('', 'bench', undef, undef, 'psql');
GetOptions('uri=s' => \$uri, 'stream=s' => \$stream, 'topics=s' => \$topics, 'stored=s' => \$stored_file, 'psql=s' => \$psql)
	and @ARGV > 0 or fail('wrong command line; see its head comment');

my %n = map { $_ => 0 } qw(acknowledged stored lost foreign duplicates unexplained misordered never_sent holes reused time_back);
my (@examples, %examples_of);

# By connection: bit strings by sequence number, and times sent again by "connection sequence".
my (%acked, %seen, %resent, %copies, %sent);

sub fail
{
	print STDERR "check_truth.pl: @_\n";
	exit 2;
}

sub fault
{
	my ($name, $text) = @_;

	$n{$name}++;
	push @examples, "$name: $text" if ++$examples_of{$name} <= 10;
}

sub read_truth
{
	my ($file) = @_;

	open(my $in, '<', $file) or fail("$file: $!");
	while (my $line = <$in>)
	{
		# A line cut short by the end of its writer is not evidence of anything.
		next unless $line =~ /\n\z/;
		my ($kind, $connection, $sequence) = split(' ', $line);
		if ($kind eq 'A')
		{
			$n{acknowledged}++ unless vec($acked{$connection} //= '', $sequence, 1);
			vec($acked{$connection}, $sequence, 1) = 1;
		}
		elsif ($kind eq 'S') { $resent{"$connection $sequence"}++ }
		elsif ($kind eq 'E') { $sent{$connection} = $sequence }
		elsif ($kind ne 'R') { fail("$file: unknown line \"$line\"") }
	}
	close($in);
}

# The stream's records in the order of their offsets: shard, offset, microseconds, beginning of the payload.
sub open_stored
{
	my $in;

	if (defined $stored_file)
	{
		open($in, '<', $stored_file) or fail("$stored_file: $!");
		return $in;
	}
	my $where = '';
	if (defined $topics)
	{
		(my $quoted = $topics) =~ s/'/''/g;
		$where = "WHERE starts_with(key, '$quoted')";
	}
	(my $relation = $stream) =~ s/'/''/g;
	# The table's name comes from the server, which knows how to quote it.
	open(my $name, '-|', $psql, '-XqAt', ($uri ne '' ? ('-d', $uri) : ()), '-c', "SELECT '$relation'::regclass") or fail("$psql: $!");
	chomp(my $table = <$name> // '');
	close($name) && $table ne '' or fail("no stream $stream");
	open($in, '-|', $psql, '-XqAt', ($uri ne '' ? ('-d', $uri) : ()), '-c',
		"COPY (SELECT shard, log_offset, (extract(epoch FROM ts) * 1000000)::bigint, encode(substring(payload FOR 80), 'escape') "
			. "FROM $table $where ORDER BY shard, log_offset) TO STDOUT") or fail("$psql: $!");
	return $in;
}

sub read_stored
{
	my $in = open_stored();
	my ($last_shard, $last_offset, $last_ts) = (-1, -1, 0);
	my %latest;

	while (my $line = <$in>)
	{
		my ($shard, $offset, $ts, $payload) = split(/\t/, $line, 4);
		defined $payload or fail("unexpected line \"$line\"");
		if ($shard == $last_shard)
		{
			fault('time_back', "shard $shard, offset $offset") if $ts < $last_ts;
			if ($offset == $last_offset) { fault('reused', "shard $shard, offset $offset") }
			elsif (!defined $topics && $offset != $last_offset + 1)
			{
				fault('holes', "shard $shard, from $last_offset to $offset");
				$n{holes} += $offset - $last_offset - 2;
			}
		}
		($last_shard, $last_offset, $last_ts) = ($shard, $offset, $ts);

		if ($payload !~ /^\{"t":\d+,"c":(\d+),"n":(\d+)[,}]/)
		{
			$n{foreign}++;
			next;
		}
		my ($connection, $sequence) = ($1, $2);
		$n{stored}++;
		fault('never_sent', "connection $connection, sequence $sequence")
			if defined $sent{$connection} && $sequence >= $sent{$connection};
		if (vec($seen{$connection} //= '', $sequence, 1))
		{
			$n{duplicates}++;
			fault('unexplained', "connection $connection, sequence $sequence, shard $shard, offset $offset")
				if ++$copies{"$connection $sequence"} > ($resent{"$connection $sequence"} // 0);
			next;
		}
		vec($seen{$connection}, $sequence, 1) = 1;
		my $latest = $latest{"$connection $shard"} // -1;
		fault('misordered', "connection $connection, sequence $sequence after $latest, shard $shard, offset $offset")
			if $sequence < $latest;
		$latest{"$connection $shard"} = $sequence if $sequence > $latest;
	}
	close($in) or fail('reading the stream failed');
}

sub find_lost
{
	for my $connection (sort { $a <=> $b } keys %acked)
	{
		for my $sequence (0 .. 8 * length($acked{$connection}) - 1)
		{
			fault('lost', "connection $connection, sequence $sequence")
				if vec($acked{$connection}, $sequence, 1) && !vec($seen{$connection} // '', $sequence, 1);
		}
	}
}

read_truth($_) for @ARGV;
fail('no message was acknowledged, so there is nothing to compare') if $n{acknowledged} == 0;
read_stored();
find_lost();
print join(' ', map { "$_=$n{$_}" }
		qw(acknowledged stored lost duplicates unexplained misordered never_sent holes reused time_back foreign)), "\n";
print "  $_\n" for @examples;
exit($n{lost} + $n{unexplained} + $n{misordered} + $n{never_sent} + $n{holes} + $n{reused} + $n{time_back} > 0 ? 1 : 0);
